package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/cmd/swarm/swarmtest"
	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/recorded"
	"github.com/sapo-swarm/swarm/node/model"
)

// The tiny Qwen2 has random weights and a tokenizer.json whose tokens are the bytes. It is the smallest possible
// model with grouped-query attention and a chat template.
const tinyQwenConfig = `{"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 2, "num_attention_heads": 4,
"num_key_value_heads": 2, "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 512, "vocab_size": 264,
"rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": true, "use_sliding_window": false,
"bos_token_id": 256, "eos_token_id": 258}`

func writeTinyQwen(t testing.TB, dir string) {
	t.Helper()
	shape, err := configs.ParseShape([]byte(tinyQwenConfig))
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 7))
	random := func(shape ...int) swarmtest.Matrix {
		m := swarmtest.Zeros(shape...)
		for i := range m.Values {
			m.Values[i] = float32(0.1 * rng.NormFloat64())
		}
		return m
	}
	width, inner, pairs := shape.Width, shape.InnerWidth(), shape.KeyValueHeads()*shape.HeadWidth()
	weights := map[string]swarmtest.Matrix{"model.embed_tokens.weight": random(shape.Vocabulary, width), "model.norm.weight": swarmtest.Filled(1, width)}
	for layer := range shape.Layers {
		for name, m := range map[string]swarmtest.Matrix{
			"input_layernorm.weight": swarmtest.Filled(1, width), "post_attention_layernorm.weight": swarmtest.Filled(1, width),
			"self_attn.q_proj.weight": random(width, width), "self_attn.q_proj.bias": random(width),
			"self_attn.k_proj.weight": random(pairs, width), "self_attn.k_proj.bias": random(pairs),
			"self_attn.v_proj.weight": random(pairs, width), "self_attn.v_proj.bias": random(pairs),
			"self_attn.o_proj.weight": random(width, width), "mlp.gate_proj.weight": random(inner, width),
			"mlp.up_proj.weight": random(inner, width), "mlp.down_proj.weight": random(width, inner),
		} {
			weights[fmt.Sprintf("model.layers.%d.%s", layer, name)] = m
		}
	}
	write := func(name string, data []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	write("config.json", []byte(tinyQwenConfig))
	write("model.safetensors", swarmtest.Pack(weights))
	write("tokenizer.json", tinyQwenTokenizer(t))
	write("generation_config.json", []byte(`{"eos_token_id": [258, 256]}`))
	write("tokenizer_config.json", []byte(`{"eos_token": "<|im_end|>", "chat_template": "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"}`))
}

// tinyQwenTokenizer has the structure of Qwen2.5's file, with the bytes as its vocabulary.
func tinyQwenTokenizer(t testing.TB) []byte {
	t.Helper()
	vocab, next := map[string]int{}, rune(256)
	for b := range 256 {
		r := rune(b)
		if r < '!' || r > '~' && r < '¡' || r == '\u00ad' { // unprintable bytes map to U+0100 and up
			r = next
			next++
		}
		vocab[string(r)] = b
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}
	added := []any{}
	for i, content := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"} {
		added = append(added, map[string]any{"id": 256 + i, "content": content, "special": true})
	}
	pattern := `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	text, err := json.Marshal(map[string]any{
		"version": "1.0", "added_tokens": added, "normalizer": map[string]any{"type": "NFC"}, "post_processor": byteLevel, "decoder": byteLevel,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated", "invert": false}, byteLevel}},
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{}},
	})
	require.NoError(t, err)
	return text
}

// TestQwen2TrainsFromAFolder runs two nodes of a Qwen2 through whole rounds, with its own tokenizer and chat
// template, and saves one node's model.
func TestQwen2TrainsFromAFolder(t *testing.T) {
	t.Parallel()
	home, base := t.TempDir(), t.TempDir()
	writeTinyQwen(t, base)
	run := swarm(t, home, append([]string{"up"}, tinyRun("--model", base, "--rounds", "2", "--name", "qwen", "--set", "tasks.system_prompt=direct",
		"--set", "max_prompt_length=256", "--set", "max_completion_length=16")...)...)
	require.Zero(t, run.code, run.stderr)
	dir := filepath.Join(t.TempDir(), "trained")
	o := swarm(t, home, "model", "save", "qwen", "node_0", dir, "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var saved recorded.Saved
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &saved))
	require.Equal(t, []string{"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}, saved.Files)
	shape, err := model.Inspect(dir)
	require.NoError(t, err)
	want, err := configs.ParseShape([]byte(tinyQwenConfig))
	require.NoError(t, err)
	require.Equal(t, want, shape)

	// Without its tokenizer no node starts.
	require.NoError(t, os.Remove(filepath.Join(dir, "tokenizer.json")))
	lacking := swarm(t, home, append([]string{"up"}, tinyRun("--model", dir, "--name", "lacking")...)...)
	require.Equal(t, fail.ExitFailed, lacking.code, lacking.stderr)
	require.Contains(t, lacking.stderr, "has no tokenizer.json")
}
