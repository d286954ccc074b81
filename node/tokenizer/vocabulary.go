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

// gpt2Vocabulary is OpenAI's r50k_base.tiktoken (MIT License, see NOTICE), compressed with gzip. Each line has a token
// in base64 and its rank.
//
//go:embed r50k_base.tiktoken.gz
var gpt2Vocabulary []byte

// vocabulary holds the tokens and the merges of a byte-pair encoding.
type vocabulary struct {
	tokens      []string         // by id; "" for a token that Decode drops
	ids         map[string]int32 // ids of the tokens that Encode can return
	bytes       [256]int32       // ids of the single bytes
	lacks       [256]bool        // bytes without a token, which encoding drops
	lossy       bool             // lacks has one
	longest     int              // length of the longest token, in bytes
	wholePieces bool             // a piece that equals a token becomes that token, regardless of merges

	// merges holds the pairs that merge. If it is nil, a pair merges if both together are a token. Then the token's id
	// is the merge's rank.
	merges map[[2]int32]merge
}

// merge is the result of merging two tokens. In a piece, the pair with the lowest rank merges first.
type merge struct{ rank, id int32 }

// size returns one more than the largest id.
func (v *vocabulary) size() int { return len(v.tokens) }

// add assigns an id, which must be below size, to a token.
func (v *vocabulary) add(token string, id int) {
	v.tokens[id] = token
	v.ids[token] = int32(id)
	v.longest = max(v.longest, len(token))
	if len(token) == 1 {
		v.bytes[token[0]] = int32(id)
	}
}

// id returns a token's id, or false if the bytes are not a token.
func (v *vocabulary) id(token string) (int32, bool) {
	if len(token) > v.longest {
		return 0, false
	}
	id, ok := v.ids[token]
	return id, ok
}

// held is a piece without the bytes that have no token. The bytes around them may merge.
func (v *vocabulary) held(piece string) string {
	if !v.lossy {
		return piece
	}
	kept := make([]byte, 0, len(piece))
	for _, b := range []byte(piece) {
		if !v.lacks[b] {
			kept = append(kept, b)
		}
	}
	return string(kept)
}

// merge returns the merge of two adjacent tokens. text is their bytes.
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
