// Package pythonjson converts the output of Python's json.dump to valid JSON. Python writes NaN, Infinity and
// -Infinity, which are not JSON numbers. The package imports nothing of this module.
package pythonjson

import (
	"bytes"
	"encoding/json"
)

// Null replaces NaN, Infinity and -Infinity with null.
func Null(text []byte) []byte {
	return rewrite(text, func(string) string { return "null" })
}

// Quote replaces NaN, Infinity and -Infinity with strings, as in "NaN".
func Quote(text []byte) []byte {
	return rewrite(text, func(word string) string { return `"` + word + `"` })
}

// rewrite replaces the three words outside strings. It returns valid JSON unchanged.
func rewrite(text []byte, replacement func(word string) string) []byte {
	if json.Valid(text) {
		return text
	}
	var out bytes.Buffer
	inString := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inString && c == '\\' && i+1 < len(text):
			out.Write(text[i : i+2])
			i++
			continue
		case c == '"':
			inString = !inString
		case !inString:
			if word := nonFinite(text[i:]); word != "" {
				out.WriteString(replacement(word))
				i += len(word) - 1
				continue
			}
		}
		out.WriteByte(c)
	}
	return out.Bytes()
}

func nonFinite(text []byte) string {
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(text, []byte(word)) {
			return word
		}
	}
	return ""
}
