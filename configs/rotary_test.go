package configs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The parameter counts that the models' cards state.
func TestPublishedSizesOfRotaryModels(t *testing.T) {
	for name, test := range map[string]struct {
		config     string
		parameters int64
	}{
		"SmolLM2-135M": {`{"model_type":"llama","num_hidden_layers":30,"num_attention_heads":9,"num_key_value_heads":3,"hidden_size":576,
"intermediate_size":1536,"max_position_embeddings":8192,"vocab_size":49152,"tie_word_embeddings":true,"rope_scaling":null,"attention_bias":false}`, 134_515_008},
		"SmolLM2-360M": {`{"model_type":"llama","num_hidden_layers":32,"num_attention_heads":15,"num_key_value_heads":5,"hidden_size":960,
"intermediate_size":2560,"max_position_embeddings":8192,"vocab_size":49152,"tie_word_embeddings":true}`, 361_821_120},
		"Llama-3.2-1B": {`{"model_type":"llama","num_hidden_layers":16,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":64,"hidden_size":2048,
"intermediate_size":8192,"max_position_embeddings":131072,"vocab_size":128256,"tie_word_embeddings":true,"mlp_bias":false,
"rope_scaling":{"rope_type":"llama3","factor":32.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}}`, 1_235_814_400},
		"Qwen3-0.6B": {`{"model_type":"qwen3","num_hidden_layers":28,"num_attention_heads":16,"num_key_value_heads":8,"head_dim":128,"hidden_size":1024,
"intermediate_size":3072,"max_position_embeddings":40960,"vocab_size":151936,"tie_word_embeddings":true,"use_sliding_window":false}`, 596_049_920},
	} {
		shape, err := ParseShape([]byte(test.config))
		require.NoError(t, err, name)
		require.Equal(t, test.parameters, shape.Parameters, name)
		require.True(t, shape.Rotary(), name)
	}
}

func TestPresetsHaveTheParametersOfTheirShapes(t *testing.T) {
	for _, name := range Models() {
		m, err := LoadModel(name)
		require.NoError(t, err)
		require.Equal(t, m.Shape.parameters(), m.Shape.Parameters, name)
		require.NotEmpty(t, m.License, name)
	}
}

// A folder of a preset's shape, such as a saved node, has the preset's defaults: it needs the same prompts. Another
// folder of that architecture has Qwen2.5's.
func TestAFolderHasTheDefaultsOfItsShapesPreset(t *testing.T) {
	for heads, preset := range map[string]string{"9": "smollm2-135m-instruct", "18": "qwen2.5-0.5b-instruct"} {
		m, err := ParseModel("saved", "/models/saved", []byte(`{"model_type":"llama","num_hidden_layers":30,"num_attention_heads":`+heads+`,
"num_key_value_heads":3,"head_dim":64,"hidden_size":576,"intermediate_size":1536,"max_position_embeddings":8192,"vocab_size":49152,"tie_word_embeddings":true}`))
		require.NoError(t, err)
		like, err := LoadModel(preset)
		require.NoError(t, err)
		require.Equal(t, like.Defaults, m.Defaults)
		require.Equal(t, "huggingface", m.Tokenizer)
	}
}
