package table

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// widestHang is the farthest that the lines after the first are moved in, as a part of the width.
const widestHang = 0.5

// units stay with the number before them.
var units = map[string]bool{"%": true, "B": true, "kB": true, "MB": true, "GB": true, "MiB": true, "GiB": true, "s": true, "h": true, "min": true, "W": true, "kWh": true, "°C": true}

// Wrap breaks one line at spaces into lines of at most width cells, 0: no limit. The lines after the first are moved in
// as far as the text of the first is: behind its spaces, behind "- ", "1. " or "[1] ", or behind its key where two
// spaces part a key from its value. A number stays with its unit. A word that is wider than a line, such as a path, is
// not broken: it can be copied.
func Wrap(line string, width int) []string {
	line = strings.TrimRight(line, " ")
	if width <= 0 || ansi.StringWidth(line) <= width {
		return []string{line}
	}
	hang := hangOf(line)
	if float64(hang) > widestHang*float64(width) {
		hang = min(leading(line)+2, max(0, width-1))
	}
	return wrap(line, width, hang)
}

// wrap breaks a line at spaces, with lines after the first moved in by hang.
func wrap(line string, width, hang int) []string {
	var lines []string
	var b strings.Builder
	used := leading(line)
	b.WriteString(line[:used])
	rest, begun := line[used:], false
	for rest != "" {
		end := strings.IndexByte(rest, ' ')
		if end < 0 {
			end = len(rest)
		}
		for end < len(rest) && together(rest[:end], rest[end+1:]) {
			next, _, _ := strings.Cut(rest[end+1:], " ")
			end += 1 + len(next)
		}
		word := rest[:end]
		spaces := leading(rest[end:])
		w := ansi.StringWidth(word)
		if begun && used+w > width {
			lines = append(lines, strings.TrimRight(b.String(), " "))
			b.Reset()
			b.WriteString(strings.Repeat(" ", hang))
			used = hang
		}
		b.WriteString(word + rest[end:end+spaces])
		used, begun = used+w+spaces, true
		rest = rest[end+spaces:]
	}
	return append(lines, strings.TrimRight(b.String(), " "))
}

// together tells whether no line ends between before and the first word of after: a number stays with its unit, and -o
// with its value.
func together(before, after string) bool {
	next, _, _ := strings.Cut(after, " ")
	switch {
	case next == "":
		return false
	case before == "-o":
		return true
	}
	return before != "" && units[strings.TrimRight(next, ".,;:)")] && before[len(before)-1] >= '0' && before[len(before)-1] <= '9'
}

// broken is wrap for a cell: a word that is wider than it is broken, too.
func broken(text string, width int) []string {
	var lines []string
	for _, line := range wrap(text, width, 0) {
		for ansi.StringWidth(line) > width {
			head := ansi.Truncate(line, width, "")
			if head == "" {
				break // a sign of two cells in a cell of one
			}
			lines, line = append(lines, head), line[len(head):]
		}
		lines = append(lines, line)
	}
	return lines
}

// leading is how many spaces text begins with.
func leading(text string) int { return len(text) - len(strings.TrimLeft(text, " ")) }

// hangOf is where the text of a line begins.
func hangOf(line string) int {
	start := leading(line)
	text := line[start:]
	if first, rest, ok := strings.Cut(text, " "); ok && isMark(first) {
		return start + ansi.StringWidth(first) + 1 + leading(rest)
	}
	if key := strings.Index(text, "  "); key > 0 {
		return start + ansi.StringWidth(text[:key]) + leading(text[key:])
	}
	return start
}

// isMark tells whether a word begins an item of a list: -, *, ·, 1., [1].
func isMark(word string) bool {
	switch {
	case word == "-" || word == "*" || word == "·":
		return true
	case len(word) < 2:
		return false
	}
	digits := strings.TrimSuffix(word, ".")
	if strings.HasPrefix(word, "[") {
		digits = strings.TrimSuffix(word[1:], "]")
	}
	return digits != word && digits != "" && strings.Trim(digits, "0123456789") == ""
}
