package tokenizer

import "unicode/utf8"

// nextSmolLMPiece returns the length in bytes of the first piece of a non-empty text. It splits like SmolLM2's
// tokenizer.json: every digit is a piece, and the text between digits is split like GPT-2's. So a run of spaces before
// a digit is one piece.
func nextSmolLMPiece(text string) int {
	first, size := utf8.DecodeRuneInString(text)
	switch classOf(first) {
	case number:
		return size
	case space:
		if n := runLength(text, space); startsWith(text[n:], number) {
			return n
		}
	}
	return nextPiece(text)
}
