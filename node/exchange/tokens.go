package exchange

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Tokenizer is what is needed of a node's; tokenizer.Tokenizer is the real one.
type Tokenizer interface {
	Encode(text string) []int
	Decode(ids []int) string
	EOS() int
	VocabSize() int
}

// Sampled is the completion that a node sampled as ids, which end with EOS if it is terminated. Decoding forgets things: bytes that aren't UTF-8, special
// tokens, and that a word was said in other pieces than those it is encoded to. Then the ids come along, so that those who have the same tokenizer
// learn what was said: a model of bytes says halves of characters.
func Sampled(t Tokenizer, ids []int, terminated bool) Completion {
	c := Completion{Text: t.Decode(ids), Terminated: terminated}
	if n := len(ids); n > 0 && ids[n-1] == t.EOS() {
		ids = ids[:n-1]
	}
	if garbled(c.Text) || !slices.Equal(t.Encode(c.Text), ids) {
		c.Tokens = slices.Clone(ids)
	}
	return c
}

// IDs is the completion in the ids of t, at most limit of them, EOS at the end if it is terminated and not cut; kept is what is left of it then. The sender's
// own ids are taken if t decodes them to the text. The text's are, if not; and false is returned if these are none that any node has sampled, because
// the text has U+FFFD in place of something else.
func (c Completion) IDs(t Tokenizer, limit int) (ids []int, kept Completion, said bool) {
	ids, said = slices.Clone(c.Tokens), true
	if len(ids) == 0 || !c.spelled(t) {
		ids, said = t.Encode(c.Text), !garbled(c.Text)
	}
	if c.Terminated {
		ids = append(ids, t.EOS())
	}
	if len(ids) > limit {
		ids = ids[:limit]
		c = Completion{Text: t.Decode(ids)}
	}
	return ids, c, said
}

// garbled tells whether something in a decoded text was no UTF-8, and is U+FFFD now.
func garbled(text string) bool { return strings.ContainsRune(text, utf8.RuneError) }

// spelled tells whether the completion's ids spell its text.
func (c Completion) spelled(t Tokenizer) bool {
	for _, id := range c.Tokens {
		if id < 0 || id >= t.VocabSize() || id == t.EOS() {
			return false
		}
	}
	return t.Decode(c.Tokens) == c.Text
}
