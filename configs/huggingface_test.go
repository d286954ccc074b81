package configs

import (
	"encoding/json"
	"maps"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// ParseShape refuses exactly the configurations that the engine refuses: the engine's tests read the same table. So a
// model is refused before its download.
func TestRefusedConfigs(t *testing.T) {
	data, err := os.ReadFile("testdata/model_configs.json")
	require.NoError(t, err)
	var table struct {
		Bases             map[string]map[string]any
		Accepted, Refused [][2]any // the name of a base, and changes to it
	}
	require.NoError(t, json.Unmarshal(data, &table))
	parse := func(row [2]any) (string, error) {
		config := maps.Clone(table.Bases[row[0].(string)])
		maps.Copy(config, row[1].(map[string]any))
		text, err := json.Marshal(config)
		require.NoError(t, err)
		_, err = ParseShape(text)
		return string(text), err
	}
	for _, row := range table.Accepted {
		text, err := parse(row)
		require.NoError(t, err, text)
	}
	for _, row := range table.Refused {
		text, err := parse(row)
		require.Error(t, err, text)
	}
}
