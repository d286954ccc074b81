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

// Sampled is the completion that a node sampled as ids, which end with EOS if it is terminated, each with its
// log-probability if these are to be told. Decoding loses information: bytes that are not UTF-8, special tokens, and
// another tokenization of a word than the encoder's. Then the ids come along, so that those who have the same tokenizer
// learn what was said: a model of bytes says halves of characters.
func Sampled(t Tokenizer, ids []int, terminated bool, logprobs []float64) Completion {
	c := Completion{Text: t.Decode(ids), Terminated: terminated}
	for _, p := range logprobs {
		c.Logprobs = append(c.Logprobs, float32(max(leastLogprob, min(p, 0)))) // rounding may take one beyond
	}
	if n := len(ids); n > 0 && ids[n-1] == t.EOS() {
		ids = ids[:n-1]
	}
	if len(logprobs) > 0 || garbled(c.Text) || !slices.Equal(t.Encode(c.Text), ids) {
		c.Tokens = slices.Clone(ids)
	}
	return c
}

// Decoded is a completion as a node learns from it.
type Decoded struct {
	IDs        []int     // EOS at the end if it is terminated
	Logprobs   []float64 // the sender's, of IDs; nil: not told, or of other ids
	Text       string
	Terminated bool // by itself, and not cut
	Unsaid     bool // no node has sampled these ids: the text has U+FFFD in place of something else
}

// Decode is the completion in the ids of t, cut after limit of them. The sender's own are taken if t decodes them to
// the text, the text's if not.
func (c Completion) Decode(t Tokenizer, limit int) Decoded {
	h := Decoded{Text: c.Text, Terminated: c.Terminated}
	own := c.spelled(t)
	if own {
		h.IDs = slices.Clone(c.Tokens)
	} else {
		h.IDs, h.Unsaid = t.Encode(c.Text), garbled(c.Text)
	}
	if c.Terminated {
		h.IDs = append(h.IDs, t.EOS())
	}
	if own && len(c.Logprobs) == len(h.IDs) {
		for _, p := range c.Logprobs {
			h.Logprobs = append(h.Logprobs, float64(p))
		}
	}
	if len(h.IDs) > limit {
		h.IDs, h.Logprobs = h.IDs[:limit], h.Logprobs[:min(limit, len(h.Logprobs))]
		h.Text, h.Terminated = t.Decode(h.IDs), false
	}
	return h
}

// garbled tells whether something in a decoded text was no UTF-8, and is U+FFFD now.
func garbled(text string) bool { return strings.ContainsRune(text, utf8.RuneError) }

// spelled tells whether the completion's ids, of which there are some, spell its text.
func (c Completion) spelled(t Tokenizer) bool {
	for _, id := range c.Tokens {
		if id < 0 || id >= t.VocabSize() || id == t.EOS() {
			return false
		}
	}
	return (len(c.Tokens) > 0 || len(c.Logprobs) > 0) && t.Decode(c.Tokens) == c.Text
}
