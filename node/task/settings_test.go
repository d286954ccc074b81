package task

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOtherSettings compares with the library's items for settings other than the paper's.
func TestOtherSettings(t *testing.T) {
	type group struct {
		Task   string
		Seed   int64
		Params json.RawMessage
		Items  []*Item
	}
	for i, g := range readGolden[group](t, "settings.jsonl.gz") {
		task := settingsTask(t, g.Task, g.Params)
		for index, want := range g.Items {
			got := task.Item(g.Seed, int64(index))
			require.Equal(t, want.Answer, got.Answer, "group %d %s item %d %s", i, g.Task, index, want.Metadata)
			require.Equal(t, string(want.Metadata), string(got.Metadata), "group %d item %d", i, index)
		}
	}
}

func settingsTask(t *testing.T, name string, params json.RawMessage) Task {
	t.Helper()
	switch name {
	case "basic_arithmetic":
		return paramsTask(t, params, newBasicArithmetic)
	case "decimal_arithmetic":
		return paramsTask(t, params, newDecimalArithmetic)
	case "calendar_arithmetic":
		return paramsTask(t, params, newCalendarArithmetic)
	case "fraction_simplification":
		return paramsTask(t, params, newFractionSimplification)
	case "propositional_logic":
		return paramsTask(t, params, newPropositionalLogic)
	}
	t.Fatalf("no task %q", name)
	return nil
}

func paramsTask[P any](t *testing.T, text json.RawMessage, build func(P) (Task, error)) Task {
	t.Helper()
	var params P
	require.NoError(t, json.Unmarshal(text, &params))
	return mustTask(t, params, build)
}
