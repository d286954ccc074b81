package table

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// widestHang is the maximum hanging indent, as a fraction of the width.
const widestHang = 0.5

// units lists words that stay on the line of the number before them.
var units = map[string]bool{"%": true, "B": true, "kB": true, "MB": true, "GB": true, "MiB": true, "GiB": true, "s": true, "h": true, "min": true, "W": true, "kWh": true, "°C": true}

// Wrap breaks a line at spaces into lines of at most width cells; 0: no limit. It indents continuation lines to
// where the text of the first line starts. That is after leading spaces, after a list mark ("- ", "1. ", "[1] "),
// or after a key and at least two spaces. A number stays with its unit. Wrap does not break a word that is wider
// than the line, such as a path, so that users can copy it.
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

// wrap breaks a line at spaces and indents continuation lines by hang.
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

// together reports whether a word and the first word of the text after it must stay on one line: a number and its unit,
// or -o and its value.
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

// broken wraps a cell's text as wrap does, and also breaks words that are wider than the cell.
func broken(text string, width int) []string {
	var lines []string
	for _, line := range wrap(text, width, 0) {
		for ansi.StringWidth(line) > width {
			head := ansi.Truncate(line, width, "")
			if head == "" {
				break // a character two cells wide in a cell of width 1
			}
			lines, line = append(lines, head), line[len(head):]
		}
		lines = append(lines, line)
	}
	return lines
}

// leading returns the number of leading spaces.
func leading(text string) int { return len(text) - len(strings.TrimLeft(text, " ")) }

// hangOf returns the position at which the text of a line starts.
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

// isMark reports whether a word marks a list item: -, *, ·, 1., [1].
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
