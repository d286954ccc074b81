package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// params reads a request's query. It keeps the first error, which done returns.
type params struct {
	values url.Values
	known  []string
	err    error
}

// maxQuery bounds a query in bytes.
const maxQuery = 8 << 10

// maxName bounds the names of runs, nodes, experiments and metrics, in bytes.
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

// get returns a parameter that may occur once.
func (p *params) get(name string) string {
	p.known = append(p.known, name)
	values := p.values[name]
	if len(values) > 1 {
		p.fail(badRequest("%s is given %d times, but only once is allowed", name, len(values)))
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// name returns a parameter that holds a name.
func (p *params) name(name string) string {
	value := p.get(name)
	if len(value) > maxName {
		p.fail(badRequest("%s of %d bytes, at most %d are read", name, len(value), maxName))
	}
	return value
}

// names returns a parameter that may occur several times.
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

// whole returns an integer parameter within bounds, or def if it is absent.
func (p *params) whole(name string, def, low, high int) int {
	text := p.get(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		p.fail(badRequest("bad %s %.40q: allowed: a whole number from %d to %d", name, text, low, high))
	}
	return n
}

// number returns a finite number. ok reports whether the parameter is present.
func (p *params) number(name string) (v float64, ok bool) {
	text := p.get(name)
	if text == "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !units.Finite(v) {
		p.fail(badRequest("bad %s %.40q: allowed: a number", name, text))
	}
	return v, true
}

// oneOf returns one of the words, or the first if the parameter is absent.
func (p *params) oneOf(name string, words ...string) string {
	text := p.get(name)
	if text == "" {
		return words[0]
	}
	if !slices.Contains(words, text) {
		p.fail(badRequest("bad %s %.40q: allowed: %s", name, text, strings.Join(words, ", ")))
	}
	return text
}

// measure returns the measure of a comparison. The page itself never asks for pass@K.
func (p *params) measure() string {
	text := p.get("measure")
	if text == "" {
		return stats.MeasureAuto
	}
	measure, ok := stats.ParseMeasure(text)
	if !ok {
		p.fail(badRequest("bad measure %.40q: allowed: %s", text, wording.MeasureNames))
	}
	return measure
}

// done returns the first error. Unknown parameters are an error.
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
