package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// nextPiece returns the length in bytes of the first piece of a non-empty text, split by GPT-2's pattern:
//
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// It reads each rune once. The time of a backtracking engine would depend on the text.
func nextPiece(text string) int {
	for _, suffix := range [...]string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if strings.HasPrefix(text, suffix) {
			return len(suffix)
		}
	}
	start := 0
	if text[0] == ' ' && len(text) > 1 {
		start = 1
	}
	if first, _ := utf8.DecodeRuneInString(text[start:]); classOf(first) != space {
		return start + runLength(text[start:], classOf(first))
	}
	n := runLength(text, space)
	if n == len(text) {
		return n
	}
	// The last space before a word belongs to the word's piece, unless it is the only one.
	_, last := utf8.DecodeLastRuneInString(text[:n])
	if n > last {
		return n - last
	}
	return n
}

type class int

const (
	letter class = iota
	number
	space
	other
)

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// runLength returns the length in bytes of the leading run of runes of one class.
func runLength(text string, c class) int {
	for i, r := range text {
		if classOf(r) != c {
			return i
		}
	}
	return len(text)
}
