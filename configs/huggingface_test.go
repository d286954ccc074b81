package configs

import (
	"encoding/json"
	"maps"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
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

// A refusal names the value and has one remedy.
func TestRefusedModelHasARemedy(t *testing.T) {
	for config, want := range map[string][2]string{
		`{"model_type": "bloom"}`: {`model_type gpt2, llama, qwen2 or qwen3 (it is "bloom")`, "swarm model list"},
		`{"model_type": "gpt2"}`:  {`n_layer, n_head, n_embd, n_positions and vocab_size from 1 to`, "swarm model list"},
		`{"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}`: {`architectures LlamaForCausalLM or LlamaModel (it is "LlamaForSequenceClassification")`, "swarm model list"},
		`{"model_type": "qwen3", "quantization_config": {"quant_method": "fp8"}}`:      {`no quantization_config (its quant_method is "fp8")`, "the model's repository with unquantized weights"},
	} {
		_, err := ParseModel("mine", "/models/mine", []byte(config))
		var refusal *Error
		require.ErrorAs(t, err, &refusal)
		require.ErrorContains(t, err, `bad model "/models/mine" (config.json): allowed: `+want[0])
		require.Equal(t, want[1], fail.Remedy(err))
	}
}
