package tokenizer

const (
	gpt2EOS       = 50256 // <|endoftext|>
	gpt2VocabSize = 50257
)

// newGPT2 makes GPT-2's tokenizer of its own vocabulary.
func newGPT2() (*bpe, error) {
	v, err := readVocabulary(gpt2Vocabulary, gpt2EOS)
	if err != nil {
		return nil, err
	}
	v.tokens = append(v.tokens, "") // the end token: Decode drops it
	return &bpe{name: NameGPT2, vocabulary: v, nextPiece: nextPiece, eos: gpt2EOS}, nil
}
