package shortage

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled at its first use. This package is part of every command, and most
// commands never read a log. Compiling all patterns takes longer than starting the program.
type pattern struct {
	text     string
	once     sync.Once
	compiled *regexp.Regexp
}

func lazy(text string) *pattern { return &pattern{text: text} }

func (p *pattern) get() *regexp.Regexp {
	p.once.Do(func() { p.compiled = regexp.MustCompile(p.text) })
	return p.compiled
}

func (p *pattern) in(text string) bool               { return p.get().MatchString(text) }
func (p *pattern) groups(text string) []string       { return p.get().FindStringSubmatch(text) }
func (p *pattern) all(text string, n int) [][]string { return p.get().FindAllStringSubmatch(text, n) }
