package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// parseYAML parses all documents of a file. Values have a line and a column. locateYAML finds their bytes.
func parseYAML(data []byte) (documents []*node, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var root yaml.Node
		if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, errors.New(strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: "))
		}
		if len(root.Content) == 0 {
			continue
		}
		document := yamlReader{map[*yaml.Node]*node{}}.read(root.Content[0])
		document.mark += markOf(&root)
		documents = append(documents, document)
	}
}

// yamlReader converts the nodes of one document.
type yamlReader struct{ nodes map[*yaml.Node]*node }

func (r yamlReader) read(y *yaml.Node) *node {
	if n := r.nodes[y]; n != nil {
		return n
	}
	n := &node{line: y.Line, anchor: y.Anchor, mark: markOf(y)}
	r.nodes[y] = n // before its parts: an alias may be inside its own anchor
	switch y.Kind {
	case yaml.MappingNode:
		n.shape = mapping
		for i := 0; i+1 < len(y.Content); i += 2 {
			key := y.Content[i]
			n.keys = append(n.keys, keyText(key))
			n.marks = append(n.marks, markOf(key))
			n.items = append(n.items, r.read(y.Content[i+1]))
		}
	case yaml.SequenceNode:
		n.shape = sequence
		for _, item := range y.Content {
			n.items = append(n.items, r.read(item))
		}
	case yaml.AliasNode:
		n.shape, n.target, n.mark = alias, r.read(y.Alias), n.mark+"*"+y.Value
	case yaml.ScalarNode:
		n.shape, n.leaf = value, yamlLeaf(y)
	}
	return n
}

func markOf(y *yaml.Node) string {
	return fmt.Sprintf("%d %q %q %q %q %q ", y.Style, y.Tag, y.Anchor, y.HeadComment, y.LineComment, y.FootComment)
}

func keyText(key *yaml.Node) string {
	switch {
	case key.Kind != yaml.ScalarNode:
		return notText
	case key.Tag == "!!merge":
		return mergeKey
	}
	return key.Value
}

func yamlLeaf(y *yaml.Node) leaf {
	l := leaf{text: y.Value, column: y.Column}
	switch y.Style &^ yaml.FlowStyle {
	case 0:
	case yaml.DoubleQuotedStyle:
		l.quote = '"'
	case yaml.SingleQuotedStyle:
		l.quote = '\''
	case yaml.LiteralStyle, yaml.FoldedStyle:
		l.stuck = "is a block of text"
	default:
		l.stuck = "has a tag"
	}
	switch y.ShortTag() {
	case "!!int", "!!float":
		l.kind = number
	case "!!bool":
		l.kind = boolean
	case "!!null":
		l.kind = null
	case "!!str":
		l.kind = text
	default:
		l.kind = other
	}
	return l
}

// locateYAML finds a value's bytes. The parser counts lines at every line break of YAML 1.1, and columns in
// characters.
func locateYAML(data []byte, line int, l *leaf) {
	at := lineStart(data, line)
	for range l.column - 1 {
		_, size := utf8.DecodeRune(data[at:])
		at += size
	}
	if at < len(data) && data[at] == '&' {
		for at < len(data) && !isBlank(data[at]) {
			at++
		}
		for at < len(data) && isBlank(data[at]) {
			at++
		}
	}
	rest := data[at:]
	switch {
	case l.stuck != "":
	case l.quote != 0:
		l.start = at + 1
		end, ok := quotedEnd(rest, l.quote)
		if !ok {
			l.stuck = "spans several lines"
		}
		l.end = at + end
	case len(rest) > 0 && rest[0] == '!':
		l.stuck = "has a tag"
	case l.text == "" || !bytes.HasPrefix(rest, []byte(l.text)):
		if l.stuck = "spans several lines"; l.text == "" {
			l.stuck = "has no value"
		}
	default:
		l.start, l.end = at, at+len(l.text)
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// quotedEnd returns the offset of the quote that closes the first quote of data on the same line.
func quotedEnd(data []byte, quote byte) (int, bool) {
	if len(data) == 0 || data[0] != quote {
		return 0, false
	}
	for i := 1; i < len(data); i++ {
		switch c := data[i]; {
		case c == '\n' || c == '\r':
			return 0, false
		case c == '\\' && quote == '"':
			i++
		case c == quote && quote == '\'' && i+1 < len(data) && data[i+1] == quote:
			i++
		case c == quote:
			return i, true
		}
	}
	return 0, false
}

// lineStart returns the offset of a line's first byte.
func lineStart(data []byte, line int) int {
	at := 0
	for line > 1 && at < len(data) {
		at += breakAt(data[at:])
		if at > 0 && (data[at-1] != '\r' || at == len(data) || data[at] != '\n') {
			line--
		}
	}
	return at
}

// breakAt returns the length of data up to and including the next line break. For CR LF it stops after the CR.
func breakAt(data []byte) int {
	for i, c := range data {
		switch {
		case c == '\n' || c == '\r':
			return i + 1
		case c == 0xC2 && bytes.HasPrefix(data[i:], []byte("\u0085")):
			return i + 2
		case c == 0xE2 && (bytes.HasPrefix(data[i:], []byte("\u2028")) || bytes.HasPrefix(data[i:], []byte("\u2029"))):
			return i + 3
		}
	}
	return len(data)
}
