package tokenizer

// byteTokenizer has one id per byte. EOS follows them.
type byteTokenizer struct{}

var _ Tokenizer = byteTokenizer{}

const (
	byteEOS       = 256
	byteVocabSize = 257
)

func (byteTokenizer) Encode(text string) []int {
	ids := make([]int, len(text))
	for i := range len(text) {
		ids[i] = int(text[i])
	}
	return ids
}

func (byteTokenizer) Decode(ids []int) string {
	text := make([]byte, 0, len(ids))
	for _, id := range ids {
		if id >= 0 && id < byteEOS {
			text = append(text, byte(id))
		}
	}
	return validText(text)
}

func (byteTokenizer) EOS() int       { return byteEOS }
func (byteTokenizer) Stops() []int   { return nil }
func (byteTokenizer) VocabSize() int { return byteVocabSize }
func (byteTokenizer) Name() string   { return NameBytes }
