package tokenizer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed" // the vocabulary
	"encoding/base64"
	"fmt"
	"strconv"
)

// gpt2Vocabulary is OpenAI's r50k_base.tiktoken (MIT License, see NOTICE), gzip: a token in base64 and its rank, a line.
//
//go:embed r50k_base.tiktoken.gz
var gpt2Vocabulary []byte

// vocabulary holds a byte-pair encoding's tokens. A token's id is also its rank: the lower, the earlier it was learnt.
type vocabulary struct {
	tokens  []string
	ranks   map[string]int32
	longest int // bytes of the longest token
}

// readVocabulary unpacks a vocabulary of exactly size tokens with ids 0 to size-1.
func readVocabulary(packed []byte, size int) (*vocabulary, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the vocabulary: %w", err)
	}
	v := &vocabulary{tokens: make([]string, size), ranks: make(map[string]int32, size)}
	lines := bufio.NewScanner(unpacked)
	for lines.Scan() {
		encoded, rank, _ := bytes.Cut(lines.Bytes(), []byte{' '})
		id, err := strconv.Atoi(string(rank))
		if err != nil || id < 0 || id >= size {
			return nil, fmt.Errorf("vocabulary: bad line %q", lines.Text())
		}
		token, err := base64.StdEncoding.DecodeString(string(encoded))
		if err != nil {
			return nil, fmt.Errorf("vocabulary: token %d: %w", id, err)
		}
		v.tokens[id] = string(token)
		v.ranks[v.tokens[id]] = int32(id)
		v.longest = max(v.longest, len(token))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("unpack the vocabulary: %w", err)
	}
	if len(v.ranks) != size {
		return nil, fmt.Errorf("vocabulary: %d tokens instead of %d", len(v.ranks), size)
	}
	return v, nil
}

// rank returns a token's rank, or false where the bytes are no token.
func (v *vocabulary) rank(token string) (int32, bool) {
	if len(token) > v.longest {
		return 0, false
	}
	r, ok := v.ranks[token]
	return r, ok
}
