package tokenizer

const (
	gpt2EOS       = 50256 // <|endoftext|>
	gpt2VocabSize = 50257
)

// newGPT2 creates GPT-2's tokenizer from the embedded vocabulary.
func newGPT2() (*bpe, error) {
	v, err := readVocabulary(gpt2Vocabulary, gpt2EOS)
	if err != nil {
		return nil, err
	}
	v.tokens = append(v.tokens, "") // the end token, which Decode drops
	return &bpe{name: NameGPT2, vocabulary: v, nextPiece: nextPiece, ends: []int{gpt2EOS}}, nil
}
