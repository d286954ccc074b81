package configs

import (
	"strconv"
	"strings"
)

// Error is a mistake in what the user configured. Error() is one clear line:
//
//	bad rounds "many" (exp.yaml:3): allowed: a whole number from 1 to 10000000
//	unknown config "4loc5ext": allowed: 8loc0ext, 6loc2ext, 4loc4ext, 2loc6ext
//	unknown key "learning_rat" (exp.yaml:7): did you mean "learning_rate"?
type Error struct {
	Key     string // the Config key, or what kind of name it is: config, model, task set
	Value   string // as the user gave it
	Allowed string // what would have been right
	Source  string // where it was given: exp.yaml:3, --rounds, SWARM_ROUNDS; empty when not known
	Problem string // replaces "bad KEY VALUE"
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
	case e.Allowed != "":
		b.WriteString(": allowed: " + e.Allowed)
	}
	return b.String()
}

// unknown is the error for a name that isn't among those there are.
func unknown(kind, value string, known []string) *Error {
	e := &Error{Key: kind, Value: value, Allowed: strings.Join(known, ", "), Problem: "unknown " + kind + " " + quote(value)}
	if kind == "key" {
		e.Allowed = ""
		e.Remedy = "not a key of the configuration"
		if near := nearest(value, known); near != "" {
			e.Remedy = "did you mean " + quote(near) + "?"
		}
	}
	return e
}

// quote prints a user's value on one line of bounded length.
func quote(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}

// nearest is the known name with the least edit distance from name, or "" when none is close.
func nearest(name string, known []string) string {
	best, least := "", 1+max(2, min(len(name), 60)/3)
	if len(name) > 60 {
		return ""
	}
	lower := strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	for _, k := range known {
		if d := EditDistance(lower, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// EditDistance is Levenshtein's, in bytes: how many are to be put in, left out or replaced to make b of a.
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
