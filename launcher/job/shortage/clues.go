package shortage

import (
	"bytes"
	"strings"
)

// Clue is a setting that a log tells of.
type Clue struct {
	Value string
	Line  int64
}

// Clues looks in a program's output for settings by their keys, as key=value, key: value, 'key': value and --key value,
// and for words in the paths of tracebacks. Of several values of a key the latest counts: a log may have several
// attempts. It holds a bounded amount of memory.
type Clues struct {
	lines splitter
	keys  map[string]Clue // Value is "" until it is found
	words map[string]string
}

// NewClues looks for keys ("data.train_batch_size") and for words that a path may have ("verl").
func NewClues(keys, words []string) *Clues {
	c := &Clues{keys: make(map[string]Clue), words: make(map[string]string)}
	for _, k := range keys {
		c.keys[k] = Clue{}
	}
	for _, w := range words {
		c.words[w] = ""
	}
	c.lines.yield = c.look
	return c
}

// Write takes the next bytes. It never fails.
func (c *Clues) Write(p []byte) (int, error) {
	c.lines.write(p)
	return len(p), nil
}

// Close takes a last line that has no end.
func (c *Clues) Close() { c.lines.end() }

// Found is the latest value of a key.
func (c *Clues) Found(key string) (Clue, bool) {
	clue := c.keys[key]
	return clue, clue.Value != ""
}

// Path is the first path that has a word, of a traceback; "" is none.
func (c *Clues) Path(word string) string { return c.words[word] }

func (c *Clues) look(g segment) {
	c.pairs(g.text, g.line)
	if at := bytes.Index(g.text, []byte(`File "`)); at >= 0 && len(c.words) > 0 {
		path, _, ended := bytes.Cut(g.text[at+len(`File "`):min(len(g.text), at+1000)], []byte(`"`))
		if ended {
			c.path(string(path))
		}
	}
}

// pairs finds what stands before and after = and :, and options.
func (c *Clues) pairs(text []byte, line int64) {
	for at := 0; at < len(text); at++ {
		switch b := text[at]; {
		case b == '=' || b == ':':
			key := keyBefore(text[:at])
			if _, wanted := c.keys[string(key)]; wanted {
				c.set(string(key), text[at+1:], line)
			}
		case b == '-' && at+3 < len(text) && text[at+1] == '-' && (at == 0 || text[at-1] == ' '):
			end := at + 2
			for end < len(text) && isKey(text[end]) {
				end++
			}
			if end < len(text) && text[end] == ' ' {
				key := strings.ReplaceAll(string(text[at+2:end]), "-", "_")
				if _, wanted := c.keys[key]; wanted {
					c.set(key, text[end:], line)
				}
			}
			at = end - 1
		}
	}
}

func isKey(b byte) bool {
	return b == '_' || b == '.' || b == '-' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// keyBefore is the key at the end of text, without quotes and what Hydra puts before one that is added.
func keyBefore(text []byte) []byte {
	text = bytes.TrimRight(text, ` '"`)
	from := len(text)
	for from > 0 && isKey(text[from-1]) {
		from--
	}
	return bytes.TrimLeft(text[from:], "-")
}

// maxValue bounds a clue's value, in bytes.
const maxValue = 64

func (c *Clues) set(key string, text []byte, line int64) {
	text = bytes.TrimLeft(text, ` '"`)
	end := bytes.IndexAny(text, " \t,;}])'\"\\")
	if end < 0 {
		end = len(text)
	}
	if value := plain(text[:end]); value != "" && end <= maxValue {
		c.keys[key] = Clue{Value: value, Line: line}
	}
}

func (c *Clues) path(path string) {
	folded := strings.ToLower(strings.ReplaceAll(path, "_", "-"))
	for word, found := range c.words {
		if found != "" {
			continue
		}
		for part := range strings.SplitSeq(folded, "/") {
			if part == word || strings.HasPrefix(part, word+"-") {
				c.words[word] = shorten(plain([]byte(path)))
			}
		}
	}
}
