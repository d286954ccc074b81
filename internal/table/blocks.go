package table

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

const (
	blockIndent = 2
	// widestKey is the longest key that values are lined up behind. Longer ones have their value in a line of its own.
	widestKey = 20
)

// blocks writes each row as its first cell and beneath it a line a column, empty cells left out.
func (t *Table) blocks(width int) []string {
	keys := 0
	for _, c := range t.Columns[1:] {
		if w := ansi.StringWidth(c.Title); w <= widestKey {
			keys = max(keys, w)
		}
	}
	indent := strings.Repeat(" ", blockIndent)
	var lines []string
	for _, row := range t.rows {
		lines = append(lines, Wrap(row[0], width)...)
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
			if room < longestWord(value) { // the value stands beneath its key
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

func longestWord(text string) int {
	longest := 0
	for word := range strings.FieldsSeq(text) {
		longest = max(longest, ansi.StringWidth(word))
	}
	return longest
}
