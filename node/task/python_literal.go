package task

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

type literalKind int

const (
	literalInteger literalKind = iota
	literalString
	literalSequence
)

// literal is a value in Python's literal syntax. text is the str() of an integer or a string.
type literal struct {
	kind  literalKind
	text  string
	items []literal
}

// elements iterates as Python does, over a sequence's items or a string's characters. It returns false for an
// integer and for a string of over limit bytes.
func (v literal) elements(limit int) ([]literal, bool) {
	switch {
	case v.kind == literalSequence:
		return v.items, true
	case v.kind == literalString && len(v.text) <= limit:
		list := make([]literal, 0, len(v.text))
		for _, r := range v.text {
			list = append(list, literal{kind: literalString, text: string(r)})
		}
		return list, true
	}
	return nil, false
}

// literalMaxDepth is CPython's limit on nested brackets (MAXLEVEL of its tokenizer).
const literalMaxDepth = 200

// parseLiteral reads source as Python's eval would, if it is a literal of integers, strings without prefix or
// escape, lists and tuples. It returns false for any other source, for an integer beyond 64 bits, and for more than
// maxValues values. It takes linear time.
func parseLiteral(source string, maxValues int) (literal, bool) {
	p := literalParser{rest: strings.TrimLeft(source, " \t"), values: maxValues}
	if strings.IndexByte(source, 0) >= 0 || !p.skipLeadingLines() {
		return literal{}, false
	}
	value, ok := p.series(0)
	if !ok || !p.onlyBlankLinesLeft() {
		return literal{}, false
	}
	return value, true
}

type literalParser struct {
	rest   string
	depth  int // open brackets
	values int // number of values that may still be read
}

// skipLeadingLines skips blank and comment lines. An indented expression after one of them is an error.
func (p *literalParser) skipLeadingLines() bool {
	for {
		body := strings.TrimLeft(p.rest, " \t\f")
		if body == "" {
			return false
		}
		if body[0] != '#' && body[0] != '\n' && body[0] != '\r' {
			indent := indentOf(p.rest)
			p.rest = body
			return indent == ""
		}
		end := strings.IndexAny(body, "\r\n")
		if end < 0 {
			return false
		}
		p.rest = body[end+1:]
	}
}

// onlyBlankLinesLeft reports whether only blanks and comments follow the expression. A last line of blanks without
// a line break counts as an indented line, which is an error.
func (p *literalParser) onlyBlankLinesLeft() bool {
	if end := strings.LastIndexAny(p.rest, "\r\n") + 1; end > 0 {
		if line := p.rest[end:]; indentOf(line) != "" && strings.Trim(line, " \t\f") == "" {
			return false
		}
	}
	p.depth++ // lets skipBlanks skip line breaks
	p.skipBlanks()
	return p.rest == ""
}

// indentOf returns the blanks at a line's start. A form feed resets the indentation.
func indentOf(line string) string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t\f"))]
	return indent[strings.LastIndexByte(indent, '\f')+1:]
}

// skipBlanks skips blanks between tokens. Inside brackets it also skips line breaks and comments.
func (p *literalParser) skipBlanks() {
	blanks := " \t\f"
	if p.depth > 0 {
		blanks = " \t\f\r\n"
	}
	for {
		p.rest = strings.TrimLeft(p.rest, blanks)
		if p.depth == 0 || p.rest == "" || p.rest[0] != '#' {
			return
		}
		end := strings.IndexAny(p.rest, "\r\n")
		if end < 0 {
			end = len(p.rest)
		}
		p.rest = p.rest[end:]
	}
}

// next returns the next token's first byte, 0 at the end.
func (p *literalParser) next() byte {
	p.skipBlanks()
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

// series reads values separated by commas up to closing (0: the end of the line, ')' or ']'), and consumes closing.
// A single value without a comma is returned as is, unless closing is ']'.
func (p *literalParser) series(closing byte) (literal, bool) {
	var items []literal
	comma := false
	for {
		c := p.next()
		if c == closing || closing == 0 && (c == '#' || c == '\n' || c == '\r') {
			break
		}
		if len(items) > 0 && !comma {
			return literal{}, false
		}
		value, ok := p.value()
		if !ok {
			return literal{}, false
		}
		items = append(items, value)
		if comma = p.next() == ','; comma {
			p.rest = p.rest[1:]
		}
	}
	if closing != 0 {
		p.rest = p.rest[1:]
	}
	if len(items) == 0 && closing == 0 {
		return literal{}, false
	}
	if len(items) == 1 && !comma && closing != ']' {
		return items[0], true
	}
	return literal{kind: literalSequence, items: items}, p.count()
}

// count counts a value, and returns false above the limit.
func (p *literalParser) count() bool {
	p.values--
	return p.values >= 0
}

// value reads one element: any number of signs and an integer, or a string or a bracketed series without signs.
func (p *literalParser) value() (literal, bool) {
	signed, negative := false, false
	c := p.next()
	for ; c == '+' || c == '-'; c = p.next() {
		signed, negative = true, negative != (c == '-')
		p.rest = p.rest[1:]
	}
	var value literal
	ok := false
	switch {
	case c >= '0' && c <= '9':
		value, ok = p.integer()
	case c == '\'' || c == '"':
		value, ok = p.quoted(c)
	case c == '[' || c == '(':
		if p.depth == literalMaxDepth {
			return literal{}, false
		}
		p.depth++
		p.rest = p.rest[1:]
		closing := byte(')')
		if c == '[' {
			closing = ']'
		}
		value, ok = p.series(closing)
		p.depth--
	}
	if !ok || signed && value.kind != literalInteger {
		return literal{}, false
	}
	if negative {
		value.text = negated(value.text)
	}
	return value, true
}

func negated(integer string) string {
	if integer == "0" {
		return integer
	}
	if rest, ok := strings.CutPrefix(integer, "-"); ok {
		return rest
	}
	return "-" + integer
}

// integer reads digits in base 2, 8, 10 or 16. Single underscores between digits are allowed.
func (p *literalParser) integer() (literal, bool) {
	token, base := p.rest, 10
	if len(token) > 1 && token[0] == '0' {
		switch token[1] | 0x20 {
		case 'x':
			base = 16
		case 'o':
			base = 8
		case 'b':
			base = 2
		}
	}
	end := strings.IndexFunc(token, func(r rune) bool {
		return r != '_' && r != '.' && r < utf8.RuneSelf && notAlphanumeric(r)
	})
	if end >= 0 {
		token = token[:end]
	}
	p.rest = p.rest[len(token):]
	digits := token
	if base != 10 {
		digits = token[2:]
	} else if strings.HasPrefix(digits, "0") && strings.Trim(digits, "0_") != "" {
		return literal{}, false // a leading zero
	}
	if strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") || base == 10 && digits[0] == '_' {
		return literal{}, false
	}
	n, err := strconv.ParseUint(strings.ReplaceAll(digits, "_", ""), base, 64)
	if err != nil {
		return literal{}, false
	}
	return literal{kind: literalInteger, text: strconv.FormatUint(n, 10)}, p.count()
}

// quoted reads a string without escapes or line breaks. It does not join adjacent strings.
func (p *literalParser) quoted(quote byte) (literal, bool) {
	body := p.rest[1:]
	end := strings.IndexByte(body, quote)
	if end < 0 || strings.ContainsAny(body[:end], "\\\r\n") {
		return literal{}, false
	}
	p.rest = body[end+1:]
	if end == 0 && strings.HasPrefix(p.rest, string(quote)) { // the start of a triple-quoted string
		return literal{}, false
	}
	return literal{kind: literalString, text: body[:end]}, p.count()
}
