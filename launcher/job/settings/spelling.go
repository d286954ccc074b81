package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// isNumber reports whether the text is a number, quoted or not.
func (l leaf) isNumber() bool { return l.kind == number || numberForm.MatchString(l.text) }

// written returns the text that replaces a value's bytes, or an error if to can't be written there.
func (s *source) written(at spot, to string) (string, error) {
	l := at.leaf
	have, want := l.kind, textKind(to)
	if l.isNumber() {
		have = number
	} else if l.quote != 0 && s.format != textFormat {
		have = text
		if want == boolean {
			want = text
		}
	}
	switch {
	case l.stuck != "":
		return "", s.bad(at.node.line, at.key+" "+l.stuck, "write a plain value there, or edit the file by hand")
	case have == null:
		return "", s.bad(at.node.line, at.key+" has no value (null)", "write a value there first")
	case have != want:
		return "", s.badValue(at, to, fmt.Sprintf("%s, as %q is", have, l.text))
	case want == number:
		if s.format == yamlFormat && l.quote == 0 {
			to = pythonNumber(to)
		}
		return to, nil
	case want == boolean:
		return likeCase(to, l.text), nil
	}
	quoted, ok := s.quoted(l, to)
	if !ok {
		return "", s.badValue(at, to, "plain characters, like the current value")
	}
	return quoted, nil
}

func (s *source) badValue(at spot, to, allowed string) error {
	return &configs.Error{Key: at.key, Value: to, Source: fmt.Sprintf("%s:%d", s.name, at.node.line), Allowed: allowed}
}

var (
	plainWord   = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=^-]*$`)
	exponential = regexp.MustCompile(`^(-?[0-9]+)(\.[0-9]+)?[eE]([-+]?)([0-9]+)$`)
)

// quoted returns text in the quoting of the value that it replaces. In a script it refuses everything that a shell
// would not read as a plain word.
func (s *source) quoted(l leaf, to string) (string, bool) {
	control := strings.ContainsFunc(to, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == '\uFFFD'
	})
	quote := cmp.Or(l.quote, l.inside)
	switch {
	case control:
		return "", false
	case s.format == textFormat && quote == 0:
		return to, plainWord.MatchString(to)
	case s.format == textFormat:
		return to, !strings.ContainsAny(to, "$`\\"+string(quote))
	case quote == '\'':
		return strings.ReplaceAll(to, "'", "''"), true
	case quote == '"':
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(to)
		return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`), err == nil
	}
	return to, true
}

// pythonNumber writes 1e-5 as 1.0e-5, because PyYAML reads 1e-5 as text.
func pythonNumber(s string) string {
	m := exponential.FindStringSubmatch(s)
	if m == nil {
		return s
	}
	return m[1] + cmp.Or(m[2], ".0") + "e" + cmp.Or(m[3], "+") + m[4]
}

// likeCase returns the text "true" or "false" in the letter case of the text like.
func likeCase(s, like string) string {
	s = strings.ToLower(s)
	switch {
	case like == strings.ToUpper(like):
		return strings.ToUpper(s)
	case like[0] == 'T' || like[0] == 'F':
		return strings.ToUpper(s[:1]) + s[1:]
	}
	return s
}
