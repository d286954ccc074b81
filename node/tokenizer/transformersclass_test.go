package tokenizer

import (
	"os"
	"path/filepath"
	"testing"
)

// A class that transformers 5 would make without the file's pre-tokenizer is replaced, and nothing else changes.
func TestSettingsNameAClassThatKeepsThePreTokenizer(t *testing.T) {
	const inputs = `"model_input_names": ["input_ids", "attention_mask"]`
	gpt2, smol, qwen, llama := writeTransformers(t, NameGPT2), writeSmolLM(t), writeQwen(t), writeLlama3(t)
	for _, test := range []struct {
		dir, settings, want string // want is empty if the folder's own settings stay
	}{
		{smol, "{\n \"pad_token\": null,\n \"tokenizer_class\": \"GPT2Tokenizer\",\n \"model_max_length\": 1e30\n}\n",
			"{\n \"pad_token\": null,\n \"tokenizer_class\": \"PreTrainedTokenizerFast\", " + inputs + ",\n \"model_max_length\": 1e30\n}\n"},
		{smol, `{"tokenizer_class": "GPT2TokenizerFast", "model_input_names": ["input_ids"]}`, `{"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["input_ids"]}`},
		{smol, `{"tokenizer_class": "TokenizersBackend"}`, `{"tokenizer_class": "PreTrainedTokenizerFast", ` + inputs + `}`},
		{smol, `{"tokenizer_class": "PreTrainedTokenizerFast"}`, ""},
		{smol, `{"eos_token": "<|im_end|>"}`, ""}, // a model of type llama
		{qwen, `{"tokenizer_class": "Qwen2Tokenizer"}`, ""},
		{qwen, `{"tokenizer_class": "Qwen2TokenizerFast"}`, ""},
		{qwen, `{"eos_token": "<|im_end|>"}`, ""},
		{qwen, `{"tokenizer_class": "GPT2Tokenizer"}`, `{"tokenizer_class": "PreTrainedTokenizerFast", ` + inputs + `}`},
		{llama, `{"tokenizer_class": "PreTrainedTokenizerFast"}`, ""},
		{llama, `{"tokenizer_class": "LlamaTokenizer"}`, `{"tokenizer_class": "PreTrainedTokenizerFast", ` + inputs + `}`},
		{gpt2, `{"tokenizer_class": "GPT2Tokenizer"}`, ""},
		{gpt2, `{"model_max_length": 1024}`, ""},
		{gpt2, `{"tokenizer_class": "Qwen2Tokenizer"}`, `{"tokenizer_class": "PreTrainedTokenizerFast", ` + inputs + `}`},
	} {
		writeJSON(t, test.dir, SettingsFile, test.settings)
		if got, err := TransformersSettings(test.dir); err != nil || string(got) != test.want {
			t.Errorf("%s becomes %q, %v, want %q", test.settings, got, err, test.want)
		}
	}

	// Without a class in any file, the model's type decides.
	writeJSON(t, smol, "config.json", `{"model_type": "gpt2", "eos_token_id": 1}`)
	for settings, want := range map[string]string{
		"{}":                 `{"tokenizer_class": "PreTrainedTokenizerFast", ` + inputs + `}`,
		`{"bos_token": "x"}`: `{"tokenizer_class": "PreTrainedTokenizerFast", ` + inputs + `, "bos_token": "x"}`,
	} {
		writeJSON(t, smol, SettingsFile, settings)
		if got, err := TransformersSettings(smol); err != nil || string(got) != want {
			t.Errorf("%s becomes %q, %v, want %q", settings, got, err, want)
		}
	}
	if err := os.Remove(filepath.Join(smol, SettingsFile)); err != nil {
		t.Fatal(err)
	}
	if got, err := TransformersSettings(smol); err != nil || string(got) != `{"tokenizer_class": "PreTrainedTokenizerFast", `+inputs+"}\n" {
		t.Errorf("without settings: %q, %v", got, err)
	}
	if got, err := TransformersSettings(t.TempDir()); err != nil || got != nil {
		t.Errorf("without a tokenizer: %q, %v", got, err)
	}
}
