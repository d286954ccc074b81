package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// writeFiles writes files by name into a new folder.
func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

func savedFiles(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
		files[entry.Name()] = string(text)
	}
	return files
}

// A base folder's own tokenizer is copied, with a class that transformers 5 reads the same. A folder without one gets
// the fallback tokenizer of training, and its end token id.
func TestSavedTokenizerIsTheOneThatTrained(t *testing.T) {
	gpt2, err := configs.LoadModel("gpt2")
	require.NoError(t, err)
	own := map[string]string{"vocab.json": "{}", "merges.txt": "#", "tokenizer_config.json": `{"a": 1}`, "README.md": "no"}
	to := writeFiles(t, map[string]string{"config.json": `{"eos_token_id": 3}`})
	require.NoError(t, SaveTokenizer(gpt2, writeFiles(t, own), to))
	delete(own, "README.md")
	own["config.json"] = `{"eos_token_id": 3}`
	require.Equal(t, own, savedFiles(t, to))

	smol := map[string]string{
		"tokenizer.json": `{"model": {"type": "BPE"}, "decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [` +
			`{"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "add_prefix_space": false}]}}`,
		"tokenizer_config.json": `{"tokenizer_class": "GPT2Tokenizer"}`, "config.json": `{"model_type": "llama"}`,
	}
	to = writeFiles(t, nil)
	require.NoError(t, SaveTokenizer(gpt2, writeFiles(t, smol), to))
	saved := savedFiles(t, to)
	require.Equal(t, smol["tokenizer.json"], saved["tokenizer.json"])
	require.JSONEq(t, `{"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["input_ids", "attention_mask"]}`, saved["tokenizer_config.json"])

	bare := map[string]string{
		"generation_config.json": `{"eos_token_id": [3], "temperature": 0.7, "bos_token_id": 5}`,
		"vocab.json":             "{}", "added_tokens.json": `{"<x>": 9}`, "chat_template.jinja": "half a tokenizer",
	}
	to = writeFiles(t, map[string]string{"config.json": `{"layer_norm_epsilon": 1e-05, "pad_token_id": null}`})
	require.NoError(t, SaveTokenizer(gpt2, writeFiles(t, bare), to))
	files := savedFiles(t, to)
	require.Len(t, files, 6)
	for name, want := range map[string]string{
		"config.json":            `{"layer_norm_epsilon": 1e-05, "bos_token_id": 50256, "eos_token_id": 50256, "pad_token_id": 50256}`,
		"generation_config.json": `{"temperature": 0.7, "bos_token_id": 5, "eos_token_id": 50256, "pad_token_id": 50256}`,
	} {
		require.JSONEq(t, want, files[name])
	}
	require.Contains(t, files["config.json"], "1e-05", "numbers stay as they are written")
	var settings map[string]any
	require.NoError(t, json.Unmarshal([]byte(files["tokenizer_config.json"]), &settings))
	require.EqualValues(t, 1024, settings["model_max_length"])
	tokens, err := tokenizer.Open(gpt2.Tokenizer, to)
	require.NoError(t, err)
	require.Equal(t, []int{15496, 995, 27, 91, 437, 1659, 5239, 91, 29}, tokens.Encode("Hello world<|endoftext|>"))
	require.Equal(t, 50256, tokens.EOS())
}
