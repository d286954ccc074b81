package tokenizer

import (
	"errors"
	"fmt"
)

// byteRunes maps each of the 256 bytes to its character in a byte-level vocabulary (Radford et al. 2019, encoder.py). A
// printable byte of Latin-1 maps to itself. The others map to U+0100 and up, in their order. runeBytes is the inverse.
var byteRunes, runeBytes = func() (runes [256]rune, back map[rune]byte) {
	next := rune(256)
	back = make(map[rune]byte, 256)
	for b := range runes {
		r := rune(b)
		if r < '!' || r > '~' && r < '¡' || r == '\u00ad' {
			r = next
			next++
		}
		runes[b], back[r] = r, byte(b)
	}
	return runes, back
}()

// tokenBytes converts a token from a vocabulary's notation to its bytes.
func tokenBytes(written string) (string, bool) {
	token := make([]byte, 0, len(written))
	for _, r := range written {
		b, ok := runeBytes[r]
		if !ok {
			return "", false
		}
		token = append(token, b)
	}
	return string(token), true
}

// build creates the vocabulary of a tokenizer.json. Encoding never produces added tokens, special or not: a question
// that contains their text is ordinary text.
func (f file) build() (*vocabulary, error) {
	added, size, err := f.added()
	if err != nil {
		return nil, err
	}
	for written, id := range f.Model.Vocab {
		if id < 0 || id >= maxTokens {
			return nil, fmt.Errorf("token %.40q has id %d; allowed are 0 to %d", written, id, maxTokens-1)
		}
		if len(written) > maxTokenBytes {
			return nil, fmt.Errorf("token %d has %d bytes; allowed are %d", id, len(written), maxTokenBytes)
		}
		size = max(size, id+1)
	}
	v := &vocabulary{
		tokens: make([]string, size), ids: make(map[string]int32, len(f.Model.Vocab)), wholePieces: f.Model.IgnoreMerges,
	}
	taken := make([]bool, size)
	for written, id := range f.Model.Vocab {
		if taken[id] {
			return nil, fmt.Errorf("two tokens have id %d", id)
		}
		taken[id] = true
		if _, ok := added[id]; ok {
			continue
		}
		token, ok := tokenBytes(written)
		if !ok || token == "" {
			return nil, fmt.Errorf("token %.40q is not made of bytes", written)
		}
		v.add(token, id)
	}
	for id, token := range added {
		if !token.Special {
			v.tokens[id] = token.Content // Decode can return this token; no text encodes to it
		}
	}
	for b := range 256 {
		if _, ok := v.ids[string([]byte{byte(b)})]; ok {
			continue
		}
		if needed(byte(b)) {
			return nil, fmt.Errorf("it has no token for byte %d", b)
		}
		v.lacks[b], v.lossy = true, true // SmolLM2 lacks 21 bytes that its training data never had
	}
	return v, f.addMerges(v)
}

// needed tells whether a tokenizer must have a token for a byte: tab, line feed, and printable ASCII. Others may be
// missing. Encode drops them then, as Hugging Face's library does for a file without an unk_token, such as SmolLM2's.
// With an unk_token the library gives its id for such a byte. We still drop the byte: the token is the end token in
// GPT-2's relatives, which no text may become.
func needed(b byte) bool { return b == '\t' || b == '\n' || b >= ' ' && b <= '~' }

// added returns the added tokens by id, and one more than the largest of their ids.
func (f file) added() (map[int]addedToken, int, error) {
	added, size := make(map[int]addedToken, len(f.AddedTokens)), 0
	for _, token := range f.AddedTokens {
		if token.ID < 0 || token.ID >= maxTokens || len(token.Content) > maxTokenBytes {
			return nil, 0, fmt.Errorf("added token %.40q: id %d; allowed are 0 to %d, and %d bytes", token.Content, token.ID, maxTokens-1, maxTokenBytes)
		}
		if _, twice := added[token.ID]; twice {
			return nil, 0, fmt.Errorf("two added tokens have id %d", token.ID)
		}
		added[token.ID] = token
		size = max(size, token.ID+1)
	}
	return added, size, nil
}

// addMerges reads the merges. Their rank is their position in the file.
func (f file) addMerges(v *vocabulary) error {
	if len(f.Model.Merges) > maxTokens {
		return errors.New("more merges than tokens")
	}
	v.merges = make(map[[2]int32]merge, len(f.Model.Merges))
	for rank, rule := range f.Model.Merges {
		left, leftOK := tokenBytes(rule[0])
		right, rightOK := tokenBytes(rule[1])
		a, aOK := v.id(left)
		b, bOK := v.id(right)
		to, toOK := v.id(left + right)
		if !leftOK || !rightOK || !aOK || !bOK || !toOK {
			return fmt.Errorf("merge %d, of %.40q and %.40q, is not among its tokens", rank, rule[0], rule[1])
		}
		v.merges[[2]int32{a, b}] = merge{rank: int32(rank), id: to}
	}
	return nil
}
