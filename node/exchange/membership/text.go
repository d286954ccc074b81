package membership

import (
	"strings"
	"unicode"
)

// Tidy makes an untrusted sender's text one that can be shown on a terminal: valid UTF-8 without control characters, at most limit bytes.
func Tidy(text string, limit int) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), 4*limit)], "\uFFFD"))
	if len(clean) > limit {
		clean = strings.ToValidUTF8(clean[:limit], "")
	}
	return clean
}
