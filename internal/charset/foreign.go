package charset

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// maxLine bounds the length of Line's result, in bytes.
const maxLine = 2048

// Shown makes text from a model, a worker or another program safe to print on a terminal. It removes escape
// sequences and replaces control characters other than tabs with U+FFFD.
func Shown(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, ansi.Strip(text))
}

// Marked replaces every unprintable character with U+FFFD and keeps the rest of each escape sequence visible. Use
// it to show a rejected value.
func Marked(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
}

// Line returns untrusted text as one line of at most 2 KB. Like Shown it removes escape sequences and control
// characters. It also replaces tabs and newlines with blanks, and drops zero-width characters and those that change
// the text direction.
func Line(text string) string {
	if len(text) <= maxLine && Printable(text) {
		return text
	}
	if len(text) > 4*maxLine {
		text = text[:4*maxLine] // Line cuts it to maxLine below
	}
	text = flat(text)
	if len(text) <= maxLine {
		return text
	}
	end := maxLine
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// Lines returns every line of text, cleaned as by Line but of any length.
func Lines(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = flat(strings.TrimSuffix(line, "\r"))
	}
	return lines
}

// flat is Line without the length limit.
func flat(text string) string {
	return Shown(strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r' || unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs):
			return -1 // no width, or a width that depends on the terminal's font
		}
		return r
	}, ansi.Strip(text)))
}
