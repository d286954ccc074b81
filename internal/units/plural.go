package units

import (
	"strconv"
	"strings"
)

// Plural returns n and the noun in agreement: "1 node", "2 nodes", "0 batches", "3 policies". The noun is regular
// and in the singular. The last of several words takes the ending.
func Plural[N ~int | ~int32 | ~int64](n N, noun string) string {
	return strconv.FormatInt(int64(n), 10) + " " + Noun(n, noun)
}

// Noun returns the noun in agreement with n: "node" for 1, else "nodes".
func Noun[N ~int | ~int32 | ~int64](n N, noun string) string {
	if n == 1 {
		return noun
	}
	for _, ending := range []string{"s", "x", "ch", "sh"} {
		if strings.HasSuffix(noun, ending) {
			return noun + "es"
		}
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok && stem != "" && !strings.ContainsRune("aeiou", rune(stem[len(stem)-1])) {
		return stem + "ies"
	}
	return noun + "s"
}

// Verb returns a regular verb, or "be", in agreement with n: "computes" and "is" for 1, else "compute" and "are".
func Verb[N ~int | ~int32 | ~int64](n N, infinitive string) string {
	switch {
	case infinitive == "be" && n == 1:
		return "is"
	case infinitive == "be":
		return "are"
	case n == 1:
		return infinitive + "s"
	}
	return infinitive
}

// List joins names. With last = "and": "a", "a and b", "a, b and c".
func List(names []string, last string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " " + last + " " + names[len(names)-1]
}
