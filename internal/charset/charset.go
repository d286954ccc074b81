// Package charset finds out what the terminal's locale can show, converts text to ASCII if necessary, and removes
// terminal control sequences from untrusted text.
package charset

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Value returns a variable of an environment, empty where there is none. Of two the later one counts.
func Value(environ []string, name string) string {
	found := ""
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			found = v
		}
	}
	return found
}

// NoColor follows no-color.org: NO_COLOR is set and not empty.
func NoColor(environ []string) bool { return Value(environ, "NO_COLOR") != "" }

// ASCIIOnly tells whether the locale names another character set than UTF-8. Without a locale, as in most containers,
// it is UTF-8.
func ASCIIOnly(environ []string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(Value(environ, name)); locale != "" {
			return !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
		}
	}
	return false
}

// cells is what stands for a sign of ours in ASCII, in one cell.
var cells = map[rune]rune{
	'█': '#', '░': '.', '·': '-', '…': '~', '–': '-', '—': '-', '→': '>', '←': '<', '↑': '^', '↓': 'v', '°': ' ', '×': 'x', '±': '~', '≤': '<', '≥': '>',
	'─': '-', '│': '|', '┌': '+', '┐': '+', '└': '+', '┘': '+', '┤': '+', '├': '+',
	'“': '"', '”': '"', '‘': '\'', '’': '\'', '\u00a0': ' ',
	'▁': '_', '▂': '_', '▃': '.', '▄': '-', '▅': '=', '▆': '+', '▇': '*',
}

// words is what stands for a sign of ours in ASCII where width does not matter.
var words = map[rune]string{'…': "...", '→': "->", '←': "<-", '°': "", '±': "+/-", '≤': "<=", '≥': ">="}

// Cells returns text in ASCII, each sign as wide as before: for screens that are laid out already.
func Cells(text string) string { return replace(text, nil) }

// Text returns text in ASCII, for sentences and tables that are laid out afterwards.
func Text(text string) string { return replace(text, words) }

func replace(text string, first map[rune]string) string {
	if Printable(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		word, spelled := first[r]
		plain, known := cells[r]
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case spelled:
			b.WriteString(word)
		case known:
			b.WriteRune(plain)
		case r >= Braille && r < Braille+256:
			b.WriteByte(brailleASCII(r))
		default:
			b.WriteString(strings.Repeat("?", ansi.StringWidth(string(r))))
		}
	}
	return b.String()
}

// Printable tells whether text is printable ASCII and nothing else.
func Printable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Braille is the sign without a dot. The 256 signs from it on have one bit a dot.
const Braille = '\u2800'

// brailleASCII draws a cell of a chart by its upper and its lower half.
func brailleASCII(r rune) byte {
	const upper, lower = 0x01 | 0x02 | 0x08 | 0x10, 0x04 | 0x20 | 0x40 | 0x80
	dots := r - Braille
	switch {
	case dots == 0:
		return ' '
	case dots&upper == 0:
		return '.'
	case dots&lower == 0:
		return '\''
	}
	return ':'
}
