package tokenizer

import "slices"

// bpe is a byte-level byte-pair encoding (Radford et al. 2019, GPT-2's encoder.py). It splits a text into pieces.
// Within a piece it repeatedly merges the adjacent pair with the lowest rank, until no pair merges.
type bpe struct {
	name       string
	vocabulary *vocabulary
	nextPiece  func(text string) int // returns the length in bytes of the first piece of a non-empty text
	normalize  bool                  // convert the text to Unicode's NFC first
	ends       []int                 // EOS, then the other ids that end a completion
}

var _ Tokenizer = (*bpe)(nil)

func (t *bpe) Encode(text string) []int {
	return t.appendText(make([]int, 0, len(text)/3+1), text)
}

func (t *bpe) appendText(ids []int, text string) []int {
	if t.normalize {
		text = nfc(text)
	}
	for len(text) > 0 {
		n := t.nextPiece(text)
		ids = t.vocabulary.appendPiece(ids, text[:n])
		text = text[n:]
	}
	return ids
}

func (t *bpe) Decode(ids []int) string {
	text := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		if id >= 0 && id < len(t.vocabulary.tokens) {
			text = append(text, t.vocabulary.tokens[id]...)
		}
	}
	return validText(text)
}

// endingWith returns a copy whose EOS is the given one of its end tokens, or false if it is none of them.
func (t *bpe) endingWith(eos int) (*bpe, bool) {
	own := *t
	others := slices.DeleteFunc(slices.Clone(t.ends), func(id int) bool { return id == eos })
	own.ends = append([]int{eos}, others...)
	return &own, len(own.ends) == len(t.ends)
}

func (t *bpe) EOS() int       { return t.ends[0] }
func (t *bpe) Stops() []int   { return t.ends[1:] }
func (t *bpe) VocabSize() int { return t.vocabulary.size() }
func (t *bpe) Name() string   { return t.name }
