// Package tokenizer converts text to token ids and back. It implements bytes for the small models, GPT-2's byte-pair
// encoding with an embedded vocabulary, and a model's own tokenizer.json with its chat template. It supports the
// tokenizer.json of GPT-2, Llama 3, Qwen and SmolLM2. Text and files may come from an untrusted sender. So text never
// becomes a special token, time is bounded by the text's length, and files are checked and bounded. The package imports
// nothing of this module.
package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// Names of the tokenizers, as in model presets.
const (
	NameBytes       = "bytes"
	NameGPT2        = "gpt2"
	NameHuggingFace = "huggingface" // the tokenizer.json in the model's folder
)

// File is the name of a model's own tokenizer in its folder.
const File = "tokenizer.json"

// Tokenizer maps text to token ids. Implementations are immutable after Open and safe for concurrent use.
type Tokenizer interface {
	// Encode returns the ids of a text. It encodes the text of special tokens as ordinary text.
	Encode(text string) []int
	// Decode returns the text of ids, always as valid UTF-8: a run of invalid bytes becomes one U+FFFD. It drops EOS,
	// other special tokens and ids outside the vocabulary.
	//
	// For a valid s, Decode(Encode(s)) equals s, with two exceptions. A tokenizer that normalizes, such as Qwen's,
	// returns s in Unicode's NFC. A vocabulary that has no token for some bytes loses them. SmolLM2's lacks 21 bytes:
	// six control characters, the first bytes of characters from U+40000 to U+BFFFF, which are unassigned, and bytes
	// that are never in UTF-8. Encode drops such a byte, as Hugging Face's library does. If only a part of a character
	// is left, Decode returns it as U+FFFD.
	Decode(ids []int) string
	// EOS returns the id that ends a completion. Encode never returns this id.
	EOS() int
	// Stops returns further ids that end a completion, such as <|endoftext|> of a chat model whose EOS is <|im_end|>.
	// Encode never returns them. Most tokenizers have none.
	Stops() []int
	// VocabSize returns one more than the largest id.
	VocabSize() int
	// Name returns the name passed to New or Open.
	Name() string
}

// Open returns the tokenizer of the model in a folder: its own tokenizer.json if there is one, otherwise the named
// tokenizer. A tokenizer with a supported chat template also implements Chat. Errors name the file.
func Open(name, modelDir string) (Tokenizer, error) {
	path := filepath.Join(modelDir, File)
	f, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if name == NameHuggingFace {
			return nil, fmt.Errorf("%s has no %s", modelDir, File)
		}
		return New(name)
	}
	if err != nil {
		return nil, err
	}
	t, err := f.tokenizer(name, modelDir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// New returns a tokenizer that needs no model files, "bytes" or "gpt2". Each call unpacks the vocabulary of "gpt2"
// (about 3 MB in memory) for its result. A process that doesn't use "gpt2" doesn't spend the memory.
func New(name string) (Tokenizer, error) {
	switch name {
	case NameBytes:
		return byteTokenizer{}, nil
	case NameGPT2:
		return newGPT2()
	case NameHuggingFace:
		return nil, fmt.Errorf("tokenizer %q belongs to a model and needs the model's folder", name)
	}
	return nil, fmt.Errorf("unknown tokenizer %q: known are %s, %s and %s", name, NameBytes, NameGPT2, NameHuggingFace)
}

// tokenizer builds the tokenizer that the file and the other files in the folder describe.
func (f file) tokenizer(name, modelDir string) (Tokenizer, error) {
	pieces, err := f.pieces()
	if err != nil {
		return nil, err
	}
	about, err := readModelFiles(modelDir)
	if err != nil {
		return nil, err
	}
	ends, err := f.endTokens(about)
	if err != nil {
		return nil, err
	}
	vocabulary, err := f.build()
	if err != nil {
		return nil, err
	}
	t := &bpe{name: name, vocabulary: vocabulary, nextPiece: pieces, normalize: f.Normalizer != nil, ends: ends}
	if c, ok := f.llama3(t, about); ok {
		return c, nil
	}
	if f.beginsTexts() {
		return nil, errors.New("a base model of Llama 3, whose texts begin with " + beginOfText + "; supported: the instruct model, recognized by its chat template")
	}
	if about.template != "" && !strings.Contains(about.template, turnStart) {
		return nil, errors.New("unknown chat template; supported: ChatML (" + turnStart + ") and Llama 3's (" + startHeader + ")")
	}
	if c, ok := f.chatML(t, about); ok {
		return c, nil
	}
	return t, nil
}

// validText converts decoded bytes to the valid UTF-8 that Decode guarantees.
func validText(text []byte) string {
	return strings.ToValidUTF8(string(text), "\uFFFD")
}
