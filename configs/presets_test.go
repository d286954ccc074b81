package configs

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExperiments(t *testing.T) {
	require.Equal(t, []string{"8loc0ext", "6loc2ext", "4loc4ext", "2loc6ext", "adaptive", "adaptive-ema"}, Experiments())
	for _, name := range Experiments() {
		preset, err := Experiment(name)
		require.NoError(t, err)
		values, err := PresetValues(preset)
		require.NoError(t, err)
		// The paper fixes I + J = 8 and G = 8.
		require.Equal(t, 8, values["num_train_samples"].(int)+values["num_transplant_trees"].(int))
		require.Equal(t, 8, values["num_generations"])
	}
	_, err := Experiment("4loc5ext")
	require.EqualError(t, err, `unknown config "4loc5ext": did you mean "4loc4ext"? Allowed: 8loc0ext, 6loc2ext, 4loc4ext, 2loc6ext, adaptive, adaptive-ema`)
}

func TestModels(t *testing.T) {
	require.Equal(t, []string{"gpt2", "gpt2-medium", "llama-3.2-1b-instruct", "micro", "nano", "qwen2.5-0.5b-instruct", "qwen3-0.6b", "smollm2-135m-instruct", "smollm2-360m-instruct"}, Models())
	for _, name := range Models() {
		m, err := LoadModel(name)
		require.NoError(t, err)
		require.Equal(t, name, m.Name)
		require.Equal(t, m.Shape.parameters(), m.Shape.Parameters)
		_, err = PresetValues(m.Defaults)
		require.NoError(t, err)
	}
	byID, err := LoadModel("openai-community/gpt2")
	require.NoError(t, err)
	require.Equal(t, "gpt2", byID.Name)
	require.EqualValues(t, 6_500_000_000, byID.GuideMemory.Total()) // guide 4
	_, err = LoadModel("embedded")
	require.EqualError(t, err, `unknown model "embedded": allowed: gpt2, gpt2-medium, llama-3.2-1b-instruct, micro, nano, qwen2.5-0.5b-instruct, qwen3-0.6b, smollm2-135m-instruct, smollm2-360m-instruct, or a folder with config.json and *.safetensors`)
}

func TestTaskSets(t *testing.T) {
	require.Equal(t, []string{"nano", "paper"}, TaskSets())
	nano, err := TaskSet("nano")
	require.NoError(t, err)
	paper, err := TaskSet("paper")
	require.NoError(t, err)
	require.Len(t, paper, 9)
	require.Len(t, nano, 9)
	for i := range paper {
		require.Equal(t, paper[i].Name, nano[i].Name)
		require.InDelta(t, 1, paper[i].Weight, 0)
		for param := range nano[i].Params {
			if param != "words" {
				require.Contains(t, paper[i].Params, param, paper[i].Name)
			}
		}
		for param := range paper[i].Params {
			require.Contains(t, nano[i].Params, param, nano[i].Name)
		}
	}
	_, err = TaskSet("big")
	require.EqualError(t, err, `unknown tasks.set "big": allowed: nano, paper`)
}

func TestGPUTable(t *testing.T) {
	table, err := GPUTable()
	require.NoError(t, err)
	const MiB = 1 << 20
	nodes := func(memory int64) int {
		for _, row := range table {
			if memory >= row.MemoryBytes {
				return row.Nodes["gpt2"]
			}
		}
		return 0
	}
	for i := 1; i < len(table); i++ {
		require.Less(t, table[i].MemoryBytes, table[i-1].MemoryBytes, "most memory first")
	}
	for memory, want := range map[int64]int{
		// Sizes that drivers report.
		81920 * MiB: 8, 81559 * MiB: 8, 81100 * MiB: 8,
		40960 * MiB: 6, 40536 * MiB: 6,
		32768 * MiB: 4, 32510 * MiB: 4,
		23034 * MiB: 3, 24576 * MiB: 3,
		15360 * MiB: 1, 15109 * MiB: 1, 16160 * MiB: 1,
		// Sizes that a user types.
		80e9: 8, 40e9: 6, 32e9: 4, 24e9: 3, 16e9: 1, 15e9: 1, 12e9: 0,
	} {
		require.Equal(t, want, nodes(memory), "%d bytes", memory)
	}
}

func TestParseModel(t *testing.T) {
	config := func(change map[string]any) []byte {
		h := map[string]any{"model_type": "gpt2", "vocab_size": 257, "n_layer": 4, "n_head": 4, "n_embd": 128, "n_positions": 256}
		for k, v := range change {
			h[k] = v
		}
		text, err := json.Marshal(h)
		require.NoError(t, err)
		return text
	}
	m, err := ParseModel("mine", "/models/mine", config(nil))
	require.NoError(t, err)
	require.Equal(t, "bytes", m.Tokenizer)
	require.True(t, m.Folder())
	require.Equal(t, Shape{Layers: 4, Heads: 4, Width: 128, Context: 256, Vocabulary: 257, Parameters: 859008}, m.Shape)
	require.Equal(t, 192, m.Defaults["max_prompt_length"])

	m, err = ParseModel("short", "/models/short", config(map[string]any{"vocab_size": 50257, "n_positions": 512}))
	require.NoError(t, err)
	require.Equal(t, "gpt2", m.Tokenizer)
	require.Equal(t, 384, m.Defaults["max_prompt_length"])
	require.Equal(t, 128, m.Defaults["max_completion_length"])

	m, err = ParseModel("own", "/models/own", config(map[string]any{"vocab_size": 32000}))
	require.NoError(t, err)
	require.Equal(t, "huggingface", m.Tokenizer, "no tokenizer of ours has 32000 tokens")

	for want, text := range map[string][]byte{
		`a folder with the config.json of a Hugging Face model`:                                                 []byte("{"),
		`model_type gpt2, llama, qwen2 or qwen3 (it is "bert")`:                                                 config(map[string]any{"model_type": "bert"}),
		`n_layer, n_head, n_embd, n_positions and vocab_size from 1 to 4096, 65536, 65536, 4194304 and 1048576`: config(map[string]any{"n_layer": 0}),
		`n_embd a multiple of n_head`:                                                                           config(map[string]any{"n_head": 3}),
		`n_inner from 1 to 1048576`:                                                                             config(map[string]any{"n_inner": 1 << 40}),
	} {
		_, err := ParseModel("mine", "/models/mine", text)
		require.EqualError(t, err, `bad model "/models/mine" (config.json): allowed: `+want)
	}
}

func TestKeysHaveUsages(t *testing.T) {
	require.Len(t, usages(), len(Keys()))
	for _, key := range AllKeys() {
		require.NotEmpty(t, key.Usage(), key.Name)
	}
}

func TestQwenPresetIsGuide4s(t *testing.T) {
	byID, err := LoadModel("Qwen/Qwen2.5-0.5B-Instruct")
	require.NoError(t, err)
	for _, name := range []string{"qwen2.5-0.5b-instruct", "Qwen2.5-0.5B-Instruct", "qwen/qwen2.5-0.5b-instruct"} {
		m, err := LoadModel(name)
		require.NoError(t, err)
		require.Equal(t, byID, m)
	}
	require.EqualValues(t, 15_300_000_000, byID.GuideMemory.Total()) // 1.0 + 9.3 + 3.0 + 2.0; the guide rounds it to 16
	require.EqualValues(t, 494_032_768, byID.Shape.Parameters)
	medium, err := LoadModel("openai-community/gpt2-medium")
	require.NoError(t, err)
	require.Equal(t, "gpt2-medium", medium.Name)
}

func TestParseModelOfQwen2(t *testing.T) {
	config := func(change map[string]any) []byte {
		h := map[string]any{ // Qwen/Qwen2.5-0.5B-Instruct's
			"model_type": "qwen2", "vocab_size": 151936, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
			"hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768, "tie_word_embeddings": true,
			"use_sliding_window": false, "sliding_window": 32768,
		}
		for k, v := range change {
			h[k] = v
		}
		text, err := json.Marshal(h)
		require.NoError(t, err)
		return text
	}
	preset, err := LoadModel("qwen2.5-0.5b-instruct")
	require.NoError(t, err)
	m, err := ParseModel("mine", "/models/mine", config(nil))
	require.NoError(t, err)
	require.Equal(t, preset.Shape, m.Shape)
	require.Equal(t, preset.Defaults, m.Defaults)
	require.Equal(t, "huggingface", m.Tokenizer)

	// Qwen2.5-7B's, with a separate output head.
	m, err = ParseModel("mine", "/models/mine", config(map[string]any{
		"vocab_size": 152064, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "hidden_size": 3584,
		"intermediate_size": 18944, "tie_word_embeddings": false,
	}))
	require.NoError(t, err)
	require.EqualValues(t, 7_615_616_512, m.Shape.Parameters)
	require.False(t, m.Shape.Tied())

	for want, change := range map[string]map[string]any{
		`num_attention_heads (14) a multiple of num_key_value_heads (3)`:                       {"num_key_value_heads": 3},
		`num_attention_heads (14) a multiple of num_key_value_heads (0)`:                       {"num_key_value_heads": 0},
		`use_sliding_window false (it is true)`:                                                {"use_sliding_window": true},
		`hidden_size a multiple of num_attention_heads`:                                        {"hidden_size": 900},
		`head_dim an even number from 2 to 65536`:                                              {"head_dim": -64},
		`intermediate_size from 1 to 1048576`:                                                  {"intermediate_size": 0},
		`model_type gpt2, llama, qwen2 or qwen3 (it is "bert")`:                                {"model_type": "bert"},
		`attention_bias false (it is true)`:                                                    {"model_type": "llama", "attention_bias": true},
		`rotary positions of the whole head, of rope_type default, or llama3 with its factors`: {"rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4}},
		"num_hidden_layers, num_attention_heads, hidden_size, max_position_embeddings and vocab_size from 1 to 4096, 65536, 65536, 4194304 and 1048576": {
			"max_position_embeddings": 1 << 30},
	} {
		_, err := ParseModel("mine", "/models/mine", config(change))
		require.EqualError(t, err, `bad model "/models/mine" (config.json): allowed: `+want)
	}
}
