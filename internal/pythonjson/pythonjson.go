// Package pythonjson converts the output of Python's json.dump to JSON: NaN, Infinity and -Infinity are not JSON
// numbers. It imports nothing of this module.
package pythonjson

import (
	"bytes"
	"encoding/json"
)

// Null returns text with null instead of the three words.
func Null(text []byte) []byte {
	return rewrite(text, func(string) string { return "null" })
}

// Quote returns text with strings instead of the three words: "NaN".
func Quote(text []byte) []byte {
	return rewrite(text, func(word string) string { return `"` + word + `"` })
}

// rewrite replaces the three words outside strings. Valid JSON has none of them and is returned as it is.
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
