package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// qwen2Pattern is the pattern in Qwen2's tokenizer.json. nextQwen2Piece implements it.
const qwen2Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// llama3Pattern is the pattern in Llama 3's tokenizer.json, equal to tiktoken's cl100k_base.
const llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// nextQwen2Piece returns the length in bytes of the first piece of a non-empty text, split by qwen2Pattern.
func nextQwen2Piece(text string) int { return nextCL100kPiece(text, 1) }

// nextLlama3Piece does the same for llama3Pattern.
func nextLlama3Piece(text string) int { return nextCL100kPiece(text, 3) }

// nextCL100kPiece splits like tiktoken's cl100k_base, with at most the given number of digits per piece. It reads each
// rune a fixed number of times.
func nextCL100kPiece(text string, digits int) int {
	if n := contraction(text); n > 0 {
		return n
	}
	first, size := utf8.DecodeRuneInString(text)
	class := classOf(first)
	switch {
	case class == letter:
		return runLength(text, letter)
	case class == number:
		for range digits - 1 {
			r, more := utf8.DecodeRuneInString(text[size:])
			if more == 0 || classOf(r) != number {
				break
			}
			size += more
		}
		return size
	}
	rest := text[size:]
	if !isNewline(first) && startsWith(rest, letter) {
		return size + runLength(rest, letter) // one space or mark belongs to the word after it
	}
	switch {
	case class == other:
		return withNewlines(text, runLength(text, other))
	case first == ' ' && startsWith(rest, other):
		return withNewlines(text, 1+runLength(rest, other))
	}
	n := runLength(text, space)
	if at := strings.LastIndexAny(text[:n], "\r\n"); at >= 0 {
		return at + 1
	}
	if n == len(text) {
		return n
	}
	// The last space before a non-space belongs to the next piece, unless it is the only one.
	_, last := utf8.DecodeLastRuneInString(text[:n])
	if n > last {
		return n - last
	}
	return n
}

// contraction returns the length of the English contraction at the start of a text, or 0. It ignores case (ſ counts as
// s).
func contraction(text string) int {
	if text[0] != '\'' {
		return 0
	}
	for _, suffix := range [...]string{"s", "t", "re", "ve", "m", "ll", "d"} {
		n := 1
		for range suffix {
			_, size := utf8.DecodeRuneInString(text[n:])
			n += size
		}
		if strings.EqualFold(text[1:n], suffix) {
			return n
		}
	}
	return 0
}

func isNewline(r rune) bool { return r == '\r' || r == '\n' }

func startsWith(text string, c class) bool {
	r, size := utf8.DecodeRuneInString(text)
	return size > 0 && classOf(r) == c
}

// withNewlines extends a piece of n bytes by the line ends that follow it.
func withNewlines(text string, n int) int {
	for n < len(text) && (text[n] == '\r' || text[n] == '\n') {
		n++
	}
	return n
}
