package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

// params reads a request's query. The first mistake is kept; whoever reads them asks for it once, at the end.
type params struct {
	values url.Values
	known  []string
	err    error
}

// maxQuery bounds a query in bytes.
const maxQuery = 8 << 10

// maxName bounds a name of a run, node, experiment or metric in bytes.
const maxName = 256

func readParams(r *http.Request) *params {
	p := &params{}
	if len(r.URL.RawQuery) > maxQuery {
		p.err = badRequest("a query of %d bytes, at most %d are read", len(r.URL.RawQuery), maxQuery)
		return p
	}
	if p.values, p.err = url.ParseQuery(r.URL.RawQuery); p.err != nil {
		p.err = badRequest("the query can't be read: %v", p.err)
	}
	return p
}

func (p *params) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// get is a parameter that may be given once.
func (p *params) get(name string) string {
	p.known = append(p.known, name)
	values := p.values[name]
	if len(values) > 1 {
		p.fail(badRequest("%s is given %d times, once is allowed", name, len(values)))
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// name is a parameter that names something.
func (p *params) name(name string) string {
	value := p.get(name)
	if len(value) > maxName {
		p.fail(badRequest("%s of %d bytes, at most %d are read", name, len(value), maxName))
	}
	return value
}

// names is a parameter that may be given several times.
func (p *params) names(name string) []string {
	p.known = append(p.known, name)
	var names []string
	for _, value := range p.values[name] {
		for _, one := range strings.Split(value, ",") { // names have no commas
			if len(one) > maxName {
				p.fail(badRequest("%s of %d bytes, at most %d are read", name, len(one), maxName))
			}
			if one != "" {
				names = append(names, one)
			}
		}
	}
	return names
}

// whole is a whole number within bounds, def where it isn't given.
func (p *params) whole(name string, def, low, high int) int {
	text := p.get(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		p.fail(badRequest("%s is %.40q, allowed is a whole number from %d to %d", name, text, low, high))
	}
	return n
}

// number is a finite number; ok: it is given.
func (p *params) number(name string) (v float64, ok bool) {
	text := p.get(name)
	if text == "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !units.Finite(v) {
		p.fail(badRequest("%s is %.40q, allowed is a number", name, text))
	}
	return v, true
}

// oneOf is one of some words, the first where it isn't given.
func (p *params) oneOf(name string, words ...string) string {
	text := p.get(name)
	if text == "" {
		return words[0]
	}
	if !slices.Contains(words, text) {
		p.fail(badRequest("%s is %.40q, allowed is %s", name, text, strings.Join(words, ", ")))
	}
	return text
}

// done returns the first mistake; a parameter that nobody has asked for is one.
func (p *params) done() error {
	if p.err != nil {
		return p.err
	}
	for name := range p.values {
		if !slices.Contains(p.known, name) {
			known := "none"
			if len(p.known) > 0 {
				known = strings.Join(p.known, ", ")
			}
			return badRequest("unknown parameter %.40q, known are: %s", name, known)
		}
	}
	return nil
}
