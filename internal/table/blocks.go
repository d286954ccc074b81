package table

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

const (
	blockIndent = 2
	// widestKey is the width of the longest key that values are aligned to. The value of a longer key goes on its
	// own line.
	widestKey = 20
)

// blocks prints each row as its first cell (a number with its title), then one line per column. It omits empty
// cells. For a table without titles it prints the cells of a row one after another.
func (t *Table) blocks(width int) []string {
	if !t.titled() {
		return t.run(width)
	}
	keys := 0
	for _, c := range t.Columns[1:] {
		if w := ansi.StringWidth(c.Title); w <= widestKey {
			keys = max(keys, w)
		}
	}
	indent := strings.Repeat(" ", blockIndent)
	var lines []string
	for _, row := range t.rows {
		name := row[0]
		if t.Columns[0].Right && t.Columns[0].Title != "" { // a number alone has no meaning
			name = t.Columns[0].Title + " " + name
		}
		lines = append(lines, Wrap(name, width)...)
		for i, c := range t.Columns[1:] {
			value := row[i+1]
			if value == "" {
				continue
			}
			head, room := indent, width-blockIndent
			if keys > 0 {
				head += c.Title + strings.Repeat(" ", max(0, keys-ansi.StringWidth(c.Title))+gap)
				room = width - ansi.StringWidth(head)
			}
			if room < longestWord(value) { // the value goes below its key
				if c.Title != "" {
					lines = append(lines, Wrap(indent+c.Title, width)...)
					head = indent + indent
				} else {
					head = indent
				}
				room = width - ansi.StringWidth(head)
			}
			for n, part := range Wrap(value, room) {
				if n > 0 {
					head = strings.Repeat(" ", ansi.StringWidth(head))
				}
				lines = append(lines, head+part)
			}
		}
	}
	return lines
}

// run prints the cells of each row one after another.
func (t *Table) run(width int) []string {
	var lines []string
	for _, row := range t.rows {
		line := strings.Join(slices.DeleteFunc(slices.Clone(row), func(cell string) bool { return cell == "" }), strings.Repeat(" ", gap))
		if row[0] == "" {
			line = strings.Repeat(" ", 2*blockIndent) + line
		}
		lines = append(lines, wrap(line, width, leading(line)+blockIndent)...)
	}
	return lines
}

// longestWord returns the width of the longest piece of a text that wrap does not break, such as a number with its
// unit.
func longestWord(text string) int {
	longest := 0
	for _, part := range wrap(text, 1, 0) {
		longest = max(longest, ansi.StringWidth(part))
	}
	return longest
}
