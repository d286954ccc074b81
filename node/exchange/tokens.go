package exchange

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Tokenizer is the part of a node's tokenizer that this package uses. tokenizer.Tokenizer implements it.
type Tokenizer interface {
	Encode(text string) []int
	Decode(ids []int) string
	EOS() int
	Stops() []int
	VocabSize() int
}

// Sampled converts sampled token ids to a Completion. ids end with EOS or a stop token if terminated is true. logprobs
// has one entry per id, or is nil if log-probabilities are not shared. Decoding loses information: bytes that are not
// UTF-8, special tokens, and a tokenization that differs from the encoder's. In these cases the completion includes the
// ids, so that receivers with the same tokenizer can restore them. A byte-level model, for example, can emit half a
// character.
func Sampled(t Tokenizer, ids []int, terminated bool, logprobs []float64) Completion {
	c := Completion{Text: t.Decode(ids), Terminated: terminated}
	for _, p := range logprobs {
		c.Logprobs = append(c.Logprobs, float32(max(leastLogprob, min(p, 0)))) // rounding may exceed the bounds slightly
	}
	if n := len(ids); n > 0 && ids[n-1] == t.EOS() {
		ids = ids[:n-1]
	} else {
		c.Stopped = terminated && n > 0 && slices.Contains(t.Stops(), ids[n-1])
	}
	if len(logprobs) > 0 || garbled(c.Text) || !slices.Equal(t.Encode(c.Text), ids) {
		c.Tokens = slices.Clone(ids)
	}
	return c
}

// Decoded is a completion in the receiver's token ids.
type Decoded struct {
	IDs        []int     // with the end token if Terminated
	Logprobs   []float64 // the sender's, one per id in IDs; nil: not sent, or of other ids
	Text       string
	Terminated bool // ended with an end token and not cut
	Unsaid     bool // no node sampled these ids: U+FFFD in the text replaces other bytes
}

// Decode returns the completion in the token ids of t, cut after limit ids. It uses the sender's ids if t decodes them
// to the text. Otherwise it encodes the text.
func (c Completion) Decode(t Tokenizer, limit int) Decoded {
	h := Decoded{Text: c.Text, Terminated: c.Terminated}
	own := c.spelled(t)
	if own {
		h.IDs = slices.Clone(c.Tokens)
	} else {
		h.IDs, h.Unsaid = t.Encode(c.Text), garbled(c.Text)
	}
	if c.Terminated && !(own && c.Stopped) {
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

// garbled reports whether a decoded text contains U+FFFD, which replaces bytes that are not UTF-8.
func garbled(text string) bool { return strings.ContainsRune(text, utf8.RuneError) }

// Ends reports whether an id ends a completion.
func Ends(t Tokenizer, id int) bool { return id == t.EOS() || slices.Contains(t.Stops(), id) }

// spelled reports whether the completion has token ids and t decodes them to its text.
func (c Completion) spelled(t Tokenizer) bool {
	if n := len(c.Tokens); c.Stopped && (!c.Terminated || n == 0 || !slices.Contains(t.Stops(), c.Tokens[n-1])) {
		return false
	}
	for _, id := range c.Tokens {
		if id < 0 || id >= t.VocabSize() || id == t.EOS() {
			return false
		}
	}
	return (len(c.Tokens) > 0 || len(c.Logprobs) > 0) && t.Decode(c.Tokens) == c.Text
}
