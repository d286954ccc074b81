package tokenizer

import "unicode/utf8"

// nextSmolLMPiece returns the length in bytes of the first piece of a text that isn't empty, as SmolLM2's
// tokenizer.json cuts it: first every digit is a piece of its own, then what is between digits is cut as GPT-2's is. So
// a run of spaces before a digit is one piece.
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
