package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// fileClass is transformers' class that takes everything from a tokenizer.json. transformers 5 also calls it
// TokenizersBackend, a name that transformers 4 does not know.
const fileClass = "PreTrainedTokenizerFast"

// defaultClasses are the classes that transformers 5 takes by a model's type, if no file names one.
var defaultClasses = map[string]string{"gpt2": "GPT2Tokenizer", "llama": fileClass, "qwen2": "Qwen2Tokenizer", "qwen3": "Qwen2Tokenizer"}

// TransformersSettings returns the tokenizer_config.json with which transformers encodes like the tokenizer.json of a
// folder, or nil if the folder's own does. transformers 5 reads only tokens, merges and post-processor for a class such
// as GPT2Tokenizer, and normalizes and splits texts as the class does. If the tokenizer.json differs, as SmolLM2's
// does, the result is the folder's text with PreTrainedTokenizerFast in place of the class.
func TransformersSettings(folder string) ([]byte, error) {
	f, err := readFile(filepath.Join(folder, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	about, err := readModelFiles(folder)
	if err != nil || f.madeBy(cmp.Or(about.class, defaultClasses[about.modelType])) {
		return nil, err
	}
	text, err := readBounded(filepath.Join(folder, SettingsFile))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("{}\n"), nil
	}
	if err != nil {
		return nil, err
	}
	return nameClass(text)
}

// madeBy reports whether a class of transformers normalizes and splits texts like the file, in transformers 4 and 5.
func (f file) madeBy(class string) bool {
	switch strings.TrimSuffix(class, "Fast") {
	case "GPT2Tokenizer":
		return f.Normalizer == nil && f.PreTokenizer.byteLevel(true) && !f.Model.IgnoreMerges
	case "Qwen2Tokenizer":
		return f.Normalizer != nil && f.splitsBy(qwen2Pattern) && !f.Model.IgnoreMerges
	}
	return class == fileClass
}

// nameClass returns the text of a JSON object with fileClass as its tokenizer_class, and with model_input_names, which
// have another default for this class in transformers 4. Everything else stays as it is.
func nameClass(text []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	const class, inputs = `"` + fileClass + `"`, `, "model_input_names": ["input_ids", "attention_mask"]`
	at, old := int(decoder.InputOffset()), 0 // the place of the new text, and the length of the one that it replaces
	before, added, after := `"tokenizer_class": `, inputs, ""
	if decoder.More() {
		after = ", "
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		switch key {
		case "tokenizer_class":
			before, after, old = "", "", len(value)
			at = int(decoder.InputOffset()) - old
		case "model_input_names":
			added = ""
		}
	}
	return slices.Concat(text[:at], []byte(before+class+added+after), text[at+old:]), nil
}
