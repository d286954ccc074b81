package swarmtest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Fields requires a JSON object with these members, of these types: number, string, bool, array, object, or with "?"
// also null. It returns the object. Members may be added, but never removed.
func Fields(t *testing.T, document any, want map[string]string) map[string]any {
	t.Helper()
	object, ok := document.(map[string]any)
	require.True(t, ok, "%v is no object", document)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, there := object[name]
		require.True(t, there, "no %q in %v", name, object)
		kind, nullable := strings.CutSuffix(want[name], "?")
		got := "null"
		switch value.(type) {
		case float64:
			got = "number"
		case string:
			got = "string"
		case bool:
			got = "bool"
		case []any:
			got = "array"
		case map[string]any:
			got = "object"
		}
		if got != "null" || !nullable {
			require.Equal(t, kind, got, name)
		}
	}
	return object
}

func Decode(t *testing.T, text string) any {
	t.Helper()
	var document any
	require.NoError(t, json.Unmarshal([]byte(text), &document), text)
	return document
}
