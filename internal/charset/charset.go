// Package charset determines what the terminal's locale can show, converts text to ASCII if necessary, and removes
// terminal control sequences from untrusted text.
package charset

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Value returns the last value of the variable name in environ, or "" if it is not set.
func Value(environ []string, name string) string {
	found := ""
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			found = v
		}
	}
	return found
}

// NoColor reports whether NO_COLOR is set and not empty (no-color.org).
func NoColor(environ []string) bool { return Value(environ, "NO_COLOR") != "" }

// ASCIIOnly reports whether the locale names a character set other than UTF-8. It assumes UTF-8 if no locale is
// set, as in most containers.
func ASCIIOnly(environ []string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(Value(environ, name)); locale != "" {
			return !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
		}
	}
	return false
}

// cells maps each symbol that the program prints to one ASCII character.
var cells = map[rune]rune{
	'█': '#', '░': '.', '·': '-', '…': '~', '–': '-', '—': '-', '→': '>', '←': '<', '↑': '^', '↓': 'v', '°': ' ', '×': 'x', '±': '~', '≤': '<', '≥': '>',
	'─': '-', '│': '|', '┌': '+', '┐': '+', '└': '+', '┘': '+', '┤': '+', '├': '+',
	'“': '"', '”': '"', '‘': '\'', '’': '\'', '\u00a0': ' ',
	'▁': '_', '▂': '_', '▃': '.', '▄': '-', '▅': '=', '▆': '+', '▇': '*',
}

// words maps symbols to longer ASCII spellings, for text whose width does not matter.
var words = map[rune]string{
	'…': "...", '→': "->", '←': "<-", '°': "", '±': "+/-", '≤': "<=", '≥': ">=", '↔': "<->", '∧': "/\\", '∨': "\\/", '¬': "~",
}

// Cells converts text to ASCII and keeps the width of each symbol. Use it for screens that are already laid out.
func Cells(text string) string { return replace(text, nil) }

// Text converts text to ASCII. Use it for sentences and tables that are laid out afterwards.
func Text(text string) string { return replace(text, words) }

// Fit is Text if the locale of environ cannot show other characters, else the text itself.
func Fit(text string, environ []string) string {
	if ASCIIOnly(environ) {
		return Text(text)
	}
	return text
}

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

// Printable reports whether text consists of printable ASCII only.
func Printable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Braille is the blank Braille pattern. The 256 patterns that start here use one bit per dot.
const Braille = '\u2800'

// brailleASCII approximates a Braille cell of a chart by which of its upper and lower halves contain dots.
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
