// Package tokenizer turns text into token ids and back. It owns the two tokenizers nodes train with: bytes, for the
// small models, and GPT-2's byte-pair encoding with its own vocabulary, which is part of the program. It takes text
// that may be a stranger's: special tokens are never recognised in it, and time is bounded by its length. It imports
// nothing of ours and opens no file.
package tokenizer

import (
	"fmt"
	"strings"
)

// Names of the tokenizers, as model presets spell them.
const (
	NameBytes = "bytes"
	NameGPT2  = "gpt2"
)

// Tokenizer maps text to token ids. Implementations never change after New and are safe for concurrent use.
type Tokenizer interface {
	// Encode returns the ids of a text. What looks like a special token in it is encoded as ordinary text.
	Encode(text string) []int
	// Decode returns the text of ids, always valid UTF-8: a run of bytes that isn't becomes one U+FFFD. EOS and ids
	// outside the vocabulary are dropped. Decode(Encode(s)) is s for every valid s.
	Decode(ids []int) string
	// EOS is the id that ends a completion; Encode never returns it.
	EOS() int
	// VocabSize is one more than the largest id.
	VocabSize() int
	// Name is the name New was called with.
	Name() string
}

// New makes the tokenizer of a name, "bytes" or "gpt2". The vocabulary of "gpt2" (about 3 MB in memory) is unpacked
// here and belongs to the result alone, so a process that never asks for it never pays for it.
func New(name string) (Tokenizer, error) {
	switch name {
	case NameBytes:
		return byteTokenizer{}, nil
	case NameGPT2:
		return newGPT2()
	}
	return nil, fmt.Errorf("unknown tokenizer %q: known are %s and %s", name, NameBytes, NameGPT2)
}

// validText makes decoded bytes the valid UTF-8 that Decode promises.
func validText(text []byte) string {
	return strings.ToValidUTF8(string(text), "\uFFFD")
}
