// Package tokenizer turns text into token ids and back. It owns bytes, for the small models, GPT-2's byte-pair encoding
// with its own vocabulary, which is part of the program, and the reading of a model's own tokenizer.json (GPT-2's,
// Llama 3's, Qwen's and SmolLM2's kind) with its chat template. It takes text and files that may be an untrusted
// sender's: special tokens are never recognised in text, time is bounded by its length, and files are checked and
// bounded. It imports nothing of this module.
package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// Names of the tokenizers, as model presets spell them.
const (
	NameBytes       = "bytes"
	NameGPT2        = "gpt2"
	NameHuggingFace = "huggingface" // the tokenizer.json in the model's folder
)

// File is the name of a model's own tokenizer in its folder.
const File = "tokenizer.json"

// Tokenizer maps text to token ids. Implementations never change after Open and are safe for concurrent use.
type Tokenizer interface {
	// Encode returns the ids of a text. What looks like a special token in it is encoded as ordinary text.
	Encode(text string) []int
	// Decode returns the text of ids, always valid UTF-8: a run of bytes that isn't becomes one U+FFFD. EOS, other
	// special tokens and ids outside the vocabulary are dropped. Decode(Encode(s)) is s for every valid s; with a
	// tokenizer that normalizes, as Qwen's do, it is s in Unicode's normal form C.
	Decode(ids []int) string
	// EOS is the id that ends a completion; Encode never returns it.
	EOS() int
	// VocabSize is one more than the largest id.
	VocabSize() int
	// Name is the name New or Open was called with.
	Name() string
}

// Open makes the tokenizer of the model in a folder: its own tokenizer.json where there is one, and where not, the
// tokenizer of that name. One that recognises a chat template is a Chat too. Errors name the file.
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

// New makes the tokenizer of a name that needs no model's file, "bytes" or "gpt2". The vocabulary of "gpt2" (about 3 MB
// in memory) is unpacked here and belongs to the result alone, so a process that never asks for it never pays for it.
func New(name string) (Tokenizer, error) {
	switch name {
	case NameBytes:
		return byteTokenizer{}, nil
	case NameGPT2:
		return newGPT2()
	case NameHuggingFace:
		return nil, fmt.Errorf("tokenizer %q is a model's own: it needs the model's folder", name)
	}
	return nil, fmt.Errorf("unknown tokenizer %q: known are %s, %s and %s", name, NameBytes, NameGPT2, NameHuggingFace)
}

// tokenizer builds what the file and its neighbours in the folder describe.
func (f file) tokenizer(name, modelDir string) (Tokenizer, error) {
	pieces, err := f.pieces()
	if err != nil {
		return nil, err
	}
	about, err := readModelFiles(modelDir)
	if err != nil {
		return nil, err
	}
	eos, err := f.endToken(about)
	if err != nil {
		return nil, err
	}
	vocabulary, err := f.build()
	if err != nil {
		return nil, err
	}
	t := &bpe{name: name, vocabulary: vocabulary, nextPiece: pieces, normalize: f.Normalizer != nil, eos: eos}
	if c, ok := f.llama3(t, about); ok {
		return c, nil
	}
	if f.beginsTexts() {
		return nil, errors.New("a base model of Llama 3, each of whose texts begins with " + beginOfText + "; known is the instruct model, by its chat template")
	}
	if about.template != "" && !strings.Contains(about.template, turnStart) {
		return nil, errors.New("an unknown chat template; known are ChatML (" + turnStart + ") and Llama 3's (" + startHeader + ")")
	}
	if c, ok := f.chatML(t, about); ok {
		return c, nil
	}
	return t, nil
}

// validText makes decoded bytes the valid UTF-8 that Decode promises.
func validText(text []byte) string {
	return strings.ToValidUTF8(string(text), "\uFFFD")
}
