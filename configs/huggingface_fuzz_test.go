package configs

import "testing"

// FuzzShape parses an untrusted config.json. An accepted shape is one that can be built.
func FuzzShape(f *testing.F) {
	f.Add([]byte(`{"model_type":"gpt2","n_layer":2,"n_head":2,"n_embd":32,"n_positions":64,"vocab_size":257}`))
	f.Add([]byte(`{"model_type":"qwen2","num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":2,"hidden_size":64,"intermediate_size":128,` +
		`"max_position_embeddings":64,"vocab_size":300,"rope_theta":1e300}`))
	f.Add([]byte(`{"model_type":"gpt2","n_layer":9223372036854775807,"n_head":-1}`))
	f.Fuzz(func(t *testing.T, config []byte) {
		s, err := ParseShape(config)
		if err != nil {
			return
		}
		if s.Layers < 1 || s.Heads < 1 || s.Width < 1 || s.Context < 1 || s.Vocabulary < 1 || s.Width%s.Heads != 0 || s.Parameters < 1 {
			t.Fatalf("%s: %+v", config, s)
		}
	})
}
