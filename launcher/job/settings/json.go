package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// maxDepth bounds the nesting of a JSON file.
const maxDepth = 1000

// parseJSON parses a JSON file. It skips comments and trailing commas, as in .jsonc, and accepts Python's NaN and
// Infinity.
func parseJSON(data []byte) ([]*node, error) {
	p := jsonParser{data: data, line: 1}
	n, err := p.value(0)
	if err == nil {
		if err = p.space(); err == nil && p.at < len(data) {
			err = p.unexpected("the end")
		}
	}
	if err != nil {
		return nil, err
	}
	return []*node{n}, nil
}

type jsonParser struct {
	data []byte
	at   int
	line int
}

func (p *jsonParser) unexpected(want string) error {
	if p.at >= len(p.data) {
		return fmt.Errorf("line %d: the file ends where %s should be", p.line, want)
	}
	return fmt.Errorf("line %d: %q where %s should be", p.line, p.data[p.at:min(p.at+1, len(p.data))], want)
}

// space skips blanks and comments.
func (p *jsonParser) space() error {
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '\n':
			p.line++
			p.at++
		case isBlank(c):
			p.at++
		case bytes.HasPrefix(p.data[p.at:], []byte("//")):
			for p.at < len(p.data) && p.data[p.at] != '\n' {
				p.at++
			}
		case bytes.HasPrefix(p.data[p.at:], []byte("/*")):
			length := bytes.Index(p.data[p.at+2:], []byte("*/"))
			if length < 0 {
				return fmt.Errorf("line %d: unterminated comment", p.line)
			}
			p.line += bytes.Count(p.data[p.at:p.at+2+length], []byte("\n"))
			p.at += length + 4
		default:
			return nil
		}
	}
	return nil
}

// next skips space and returns the byte there, or 0 at the end.
func (p *jsonParser) next() (byte, error) {
	if err := p.space(); err != nil || p.at == len(p.data) {
		return 0, err
	}
	return p.data[p.at], nil
}

func (p *jsonParser) value(depth int) (*node, error) {
	c, err := p.next()
	if err != nil {
		return nil, err
	}
	n := &node{line: p.line}
	switch {
	case depth > maxDepth:
		return nil, fmt.Errorf("line %d: more than %d nested levels", p.line, maxDepth)
	case c == '{':
		n.shape = mapping
		return n, p.list(n, '}', depth)
	case c == '[':
		n.shape = sequence
		return n, p.list(n, ']', depth)
	}
	n.shape = value
	if c == '"' {
		n.leaf, err = p.text()
	} else {
		n.leaf, err = p.word()
	}
	return n, err
}

// list parses the content of brackets.
func (p *jsonParser) list(n *node, closing byte, depth int) error {
	p.at++
	for {
		c, err := p.next()
		if err != nil {
			return err
		}
		if c == closing {
			p.at++
			return nil
		}
		if len(n.items) > 0 {
			if c != ',' {
				return p.unexpected("a comma or " + string(closing))
			}
			p.at++
			if c, err := p.next(); err != nil || c == closing {
				p.at++
				return err
			}
		}
		if closing == '}' {
			if err := p.key(n); err != nil {
				return err
			}
		}
		item, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
}

func (p *jsonParser) key(n *node) error {
	if c, err := p.next(); err != nil || c != '"' {
		return cmp.Or(err, p.unexpected("a key in double quotes"))
	}
	key, err := p.text()
	if err != nil {
		return err
	}
	n.keys = append(n.keys, key.text)
	if c, err := p.next(); err != nil || c != ':' {
		return cmp.Or(err, p.unexpected("a colon"))
	}
	p.at++
	return nil
}

// text parses a string.
func (p *jsonParser) text() (leaf, error) {
	end, ok := quotedEnd(p.data[p.at:], '"')
	l := leaf{kind: text, quote: '"', start: p.at + 1, end: p.at + end}
	if !ok || json.Unmarshal(p.data[p.at:p.at+end+1], &l.text) != nil {
		return l, fmt.Errorf("line %d: unterminated or invalid string", p.line)
	}
	p.at += end + 1
	return l, nil
}

var (
	numberForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	wordKinds  = map[string]kind{"true": boolean, "false": boolean, "null": null, "NaN": other, "Infinity": other, "-Infinity": other}
)

// word parses a number or a name.
func (p *jsonParser) word() (leaf, error) {
	l := leaf{start: p.at, end: p.at}
	for l.end < len(p.data) && !isBlank(p.data[l.end]) && !strings.ContainsRune(",:[]{}\"/", rune(p.data[l.end])) {
		l.end++
	}
	l.text = string(p.data[l.start:l.end])
	if l.kind = wordKinds[l.text]; numberForm.MatchString(l.text) {
		l.kind = number
	}
	if l.kind == "" {
		return l, p.unexpected("a value")
	}
	p.at = l.end
	return l, nil
}
