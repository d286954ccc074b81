package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sapo-swarm/swarm/internal/charset"
)

// search is the state of the search on a page.
type search struct {
	typing bool
	draft  string // typed so far
	query  string // current query; empty: none
	failed bool   // no match
}

// index returns the byte offset of query in text, or -1. A query in lowercase ignores case.
func index(text, query string) int {
	if query == "" {
		return -1
	}
	if strings.ContainsFunc(query, unicode.IsUpper) {
		return strings.Index(text, query)
	}
	for i := 0; i+len(query) <= len(text); i++ {
		if utf8.RuneStart(text[i]) && strings.EqualFold(text[i:i+len(query)], query) {
			return i
		}
	}
	return -1
}

// mark applies a style to every match of query in text.
func mark(text, query string, style func(...string) string) string {
	var b strings.Builder
	for {
		i := index(text, query)
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:i] + style(text[i:i+len(query)]))
		text = text[i+len(query):]
	}
}

// typed handles a key while the query is being typed. done reports that input has ended, kept that a query was entered.
func (s *search) typed(key, text string) (done, kept bool) {
	switch key {
	case "enter":
		s.typing, s.query, s.failed = false, s.draft, false
		return true, s.query != ""
	case "esc":
		s.typing = false
		return true, false
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(s.draft)
		s.draft = s.draft[:len(s.draft)-size]
	case "ctrl+u":
		s.draft = ""
	default:
		if len(s.draft) < 200 {
			s.draft += charset.Line(text)
		}
	}
	return false, false
}
