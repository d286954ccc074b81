package configs

import (
	"errors"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Error is a mistake in the user's configuration. Error() returns one line:
//
//	bad rounds "many" (exp.yaml:3): allowed: a whole number from 1 to 10000000
//	unknown config "4loc5ext": did you mean "4loc4ext"? Allowed: 8loc0ext, 6loc2ext, 4loc4ext, 2loc6ext
//	unknown key "learning_rat" (exp.yaml:7): did you mean "learning_rate"?
type Error struct {
	Key     string // the Config key, or the kind of name: config, model, task set
	Value   string // as the user typed it
	Allowed string // the allowed values
	Source  string // where it was given: exp.yaml:3, --rounds, SWARM_ROUNDS; empty: unknown
	Problem string // replaces "bad KEY VALUE"
	Near    string // the allowed name that Value probably misspells; empty: none
	Remedy  string // replaces "allowed: ALLOWED"
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Problem != "" {
		b.WriteString(e.Problem)
	} else {
		b.WriteString("bad " + e.Key + " " + quote(e.Value))
	}
	if e.Source != "" {
		b.WriteString(" (" + e.Source + ")")
	}
	switch {
	case e.Remedy != "":
		b.WriteString(": " + e.Remedy)
	case e.Near != "":
		b.WriteString(": did you mean " + quote(e.Near) + "? Allowed: " + e.Allowed)
	case e.Allowed != "":
		b.WriteString(": allowed: " + e.Allowed)
	}
	return b.String()
}

// unknown returns the error for a name that isn't in known.
func unknown(kind, value string, known []string) *Error {
	e := &Error{
		Key: kind, Value: value, Allowed: strings.Join(known, ", "), Problem: "unknown " + kind + " " + quote(value),
		Near: units.Nearest(value, known),
	}
	if kind == "key" {
		e.Allowed = ""
		e.Remedy = "not a key of the configuration"
		if e.Near != "" {
			e.Remedy = "did you mean " + quote(e.Near) + "?"
		}
	}
	return e
}

// quote quotes a user's value on one line of bounded length.
func quote(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}

// WithSource sets the source of an *Error that has none.
func WithSource(err error, source string) error {
	var e *Error
	if errors.As(err, &e) && e.Source == "" {
		e.Source = source
	}
	return err
}
