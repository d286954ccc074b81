package shortage

import (
	"bytes"
	"strings"
)

// Clue is a setting found in a log.
type Clue struct {
	Value string
	Line  int64
}

// Clues searches a program's output for settings by key, as key=value, key: value, 'key': value and --key value, and
// for words in the paths of tracebacks. The latest value of a key wins, because a log may have several attempts.
// Clues uses bounded memory.
type Clues struct {
	lines splitter
	keys  map[string]Clue // Value is "" until the key is found
	words map[string]string
}

// NewClues returns Clues for these keys ("data.train_batch_size") and path words ("verl").
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

// Write adds the next bytes. It never fails.
func (c *Clues) Write(p []byte) (int, error) {
	c.lines.write(p)
	return len(p), nil
}

// Close ends a last line without a newline.
func (c *Clues) Close() { c.lines.end() }

// Found returns the latest value of a key.
func (c *Clues) Found(key string) (Clue, bool) {
	clue := c.keys[key]
	return clue, clue.Value != ""
}

// Path returns the first traceback path with a word, or "".
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

// pairs finds keys and values around = and :, and options.
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

// keyBefore returns the key at the end of text, without quotes and without the prefix that Hydra uses for added keys.
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
