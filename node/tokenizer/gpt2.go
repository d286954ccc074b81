package tokenizer

const (
	gpt2EOS       = 50256 // <|endoftext|>
	gpt2VocabSize = 50257
)

// gpt2Tokenizer is GPT-2's byte-level byte-pair encoding (Radford et al. 2019, encoder.py): the text is split into
// pieces, and within a piece the adjacent pair that was learnt first is merged until none is left.
type gpt2Tokenizer struct {
	vocabulary *vocabulary
}

var _ Tokenizer = (*gpt2Tokenizer)(nil)

func newGPT2() (*gpt2Tokenizer, error) {
	v, err := readVocabulary(gpt2Vocabulary, gpt2EOS)
	if err != nil {
		return nil, err
	}
	return &gpt2Tokenizer{vocabulary: v}, nil
}

func (t *gpt2Tokenizer) Encode(text string) []int {
	ids := make([]int, 0, len(text)/3+1)
	for len(text) > 0 {
		n := nextPiece(text)
		ids = t.vocabulary.appendPiece(ids, text[:n])
		text = text[n:]
	}
	return ids
}

func (t *gpt2Tokenizer) Decode(ids []int) string {
	text := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		if id >= 0 && id < len(t.vocabulary.tokens) {
			text = append(text, t.vocabulary.tokens[id]...)
		}
	}
	return validText(text)
}

func (t *gpt2Tokenizer) EOS() int       { return gpt2EOS }
func (t *gpt2Tokenizer) VocabSize() int { return gpt2VocabSize }
func (t *gpt2Tokenizer) Name() string   { return NameGPT2 }
