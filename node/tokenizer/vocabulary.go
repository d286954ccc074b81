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

// gpt2Vocabulary is OpenAI's r50k_base.tiktoken (MIT License, see NOTICE), gzip: a token in base64 and its rank, a
// line.
//
//go:embed r50k_base.tiktoken.gz
var gpt2Vocabulary []byte

// vocabulary holds a byte-pair encoding's tokens and which pairs of them merge.
type vocabulary struct {
	tokens      []string         // by id; "" for a token that Decode drops
	ids         map[string]int32 // of the tokens that text may become
	bytes       [256]int32       // ids of the single bytes
	longest     int              // bytes of the longest token
	wholePieces bool             // a piece that is a token is that token, whatever its merges are

	// merges holds the pairs that merge. nil: a pair merges where both together are a token, and the token's id is the
	// merge's rank.
	merges map[[2]int32]merge
}

// merge is what two tokens become. Of all pairs in a piece the one of the lowest rank merges first.
type merge struct{ rank, id int32 }

// size is one more than the largest id.
func (v *vocabulary) size() int { return len(v.tokens) }

// add gives a token its id, which must be below size.
func (v *vocabulary) add(token string, id int) {
	v.tokens[id] = token
	v.ids[token] = int32(id)
	v.longest = max(v.longest, len(token))
	if len(token) == 1 {
		v.bytes[token[0]] = int32(id)
	}
}

// id returns a token's id, or false where the bytes are no token.
func (v *vocabulary) id(token string) (int32, bool) {
	if len(token) > v.longest {
		return 0, false
	}
	id, ok := v.ids[token]
	return id, ok
}

// merge tells what two adjacent tokens, whose bytes are text, merge to.
func (v *vocabulary) merge(left, right int32, text string) (merge, bool) {
	if v.merges == nil {
		id, ok := v.id(text)
		return merge{id, id}, ok
	}
	m, ok := v.merges[[2]int32{left, right}]
	return m, ok
}

// readVocabulary unpacks a vocabulary of exactly size tokens with ids 0 to size-1.
func readVocabulary(packed []byte, size int) (*vocabulary, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the vocabulary: %w", err)
	}
	v := &vocabulary{tokens: make([]string, size), ids: make(map[string]int32, size), wholePieces: true}
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
		v.add(string(token), id)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("unpack the vocabulary: %w", err)
	}
	if len(v.ids) != size {
		return nil, fmt.Errorf("vocabulary: %d tokens instead of %d", len(v.ids), size)
	}
	return v, nil
}
