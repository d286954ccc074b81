package charset

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// maxLine is how many bytes of one foreign text Line shows.
const maxLine = 2048

// Shown makes text that a model, a worker or another program wrote one that a terminal obeys in nothing: no escape
// sequences, U+FFFD for control characters other than tabs.
func Shown(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, ansi.Strip(text))
}

// Marked has U+FFFD for all that doesn't print, and leaves the rest of an escape sequence in sight: for a value that is
// refused.
func Marked(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
}

// Line makes one line of at most 2 KB of such a text, which can be laid out: Shown, with blanks for tabs and newlines,
// and without what has no width or turns the direction of what follows.
func Line(text string) string {
	if len(text) <= maxLine && Printable(text) {
		return text
	}
	if len(text) > 4*maxLine {
		text = text[:4*maxLine] // the rest is cut below anyway
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

// Lines is all of a text, each of its lines as Line makes it, but of any length.
func Lines(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = flat(strings.TrimSuffix(line, "\r"))
	}
	return lines
}

// flat is Line without its bound.
func flat(text string) string {
	return Shown(strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r' || unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs):
			return -1 // without width, or with one that only the terminal's font knows
		}
		return r
	}, ansi.Strip(text)))
}
