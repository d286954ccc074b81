package terminal

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Capable tells whether a terminal of that environment can show a live view: one that can move its cursor.
func Capable(environ []string) bool {
	return value(environ, "TERM") != "dumb"
}

// value is a variable of an environment, empty where there is none. Of two the later one counts.
func value(environ []string, name string) string {
	found := ""
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			found = v
		}
	}
	return found
}

// noColor follows no-color.org: set and not empty.
func noColor(environ []string) bool { return value(environ, "NO_COLOR") != "" }

// asciiOnly tells whether the locale names another character set than UTF-8. Without a locale, as in most containers, it is UTF-8.
func asciiOnly(environ []string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(value(environ, name)); locale != "" {
			return !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
		}
	}
	return false
}

// plainRunes is what stands for the signs of our own where there is only ASCII, each as wide.
var plainRunes = map[rune]rune{
	'█': '#', '░': '.', '·': '-', '…': '~', '–': '-', '→': '>', '←': '<', '↑': '^', '↓': 'v', '°': ' ',
	'▁': '_', '▂': '_', '▃': '.', '▄': '-', '▅': '=', '▆': '+', '▇': '*',
}

// asciiText replaces what isn't ASCII by signs that take as many cells.
func asciiText(text string) string {
	if printableASCII(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		switch plain, known := plainRunes[r]; {
		case r < 0x80:
			b.WriteRune(r)
		case known:
			b.WriteRune(plain)
		case r >= braille && r < braille+256:
			b.WriteByte(brailleASCII(r))
		default:
			b.WriteString(strings.Repeat("?", ansi.StringWidth(string(r))))
		}
	}
	return b.String()
}

// brailleASCII draws a cell of a chart by its upper and its lower half.
func brailleASCII(r rune) byte {
	const upper, lower = 0x01 | 0x02 | 0x08 | 0x10, 0x04 | 0x20 | 0x40 | 0x80
	dots := r - braille
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
