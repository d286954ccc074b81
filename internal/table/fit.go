package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

const (
	gap = 2 // cells between columns

	// narrow is the width below which a table that does not fit becomes blocks instead of losing columns.
	narrow = 50
	// leastWrap is the minimum width of a column that wraps.
	leastWrap = 24
)

// fit lays out the table within width cells, or at full width if width is 0.
func (t *Table) fit(width int) []string {
	widths := t.widths()
	kept := make([]int, len(t.Columns))
	for i := range kept {
		kept[i] = i
	}
	if width == 0 || total(widths, kept) <= width {
		return t.render(kept, widths)
	}
	if width < narrow {
		return t.blocks(width)
	}
	for i, c := range t.Columns {
		if c.Max > 0 {
			widths[i] = min(widths[i], max(c.Max, ansi.StringWidth(c.Title)))
		}
	}
	for {
		if squeezed, ok := t.squeeze(widths, kept, width); ok {
			return append(t.render(kept, squeezed), t.leftOut(kept, width)...)
		}
		least := -1
		for _, i := range kept {
			if drop := t.Columns[i].Drop; drop > 0 && (least < 0 || drop >= t.Columns[least].Drop) {
				least = i
			}
		}
		if least < 0 {
			return t.blocks(width)
		}
		kept = slices.DeleteFunc(kept, func(i int) bool { return i == least })
	}
}

// total returns the width of the kept columns and the gaps between them.
func total(widths, kept []int) int {
	sum := gap * max(0, len(kept)-1)
	for _, i := range kept {
		sum += widths[i]
	}
	return sum
}

// squeeze narrows the wrapping columns, widest first, until the table fits.
func (t *Table) squeeze(widths, kept []int, width int) ([]int, bool) {
	widths = slices.Clone(widths)
	for over := total(widths, kept) - width; over > 0; over = total(widths, kept) - width {
		widest := -1
		for _, i := range kept {
			if t.Columns[i].Wrap && widths[i] > t.least(i) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return nil, false
		}
		widths[widest]--
	}
	return widths, true
}

// least returns the minimum width of wrapping column i.
func (t *Table) least(i int) int { return max(leastWrap, ansi.StringWidth(t.Columns[i].Title)) }

// leftOut returns a note that names the hidden columns.
func (t *Table) leftOut(kept []int, width int) []string {
	if len(kept) == len(t.Columns) {
		return nil
	}
	var names []string
	for i, c := range t.Columns {
		if !slices.Contains(kept, i) {
			name := c.Name
			if name == "" {
				name = strings.ToLower(c.Title)
			}
			names = append(names, name)
		}
	}
	more := t.More
	if more == "" {
		more = "-o json"
	}
	text := fmt.Sprintf("Not shown at %d columns: %s. Use a wider terminal or %s.", width+t.Indent, strings.Join(names, ", "), more)
	return Wrap(text, width)
}

// render prints the kept columns with the given widths.
func (t *Table) render(kept, widths []int) []string {
	var lines []string
	if t.titled() {
		titles := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			titles[i] = c.Title
		}
		lines = t.line(lines, kept, widths, titles)
	}
	for _, row := range t.rows {
		lines = t.line(lines, kept, widths, row)
	}
	return lines
}

// line appends a row, on as many lines as its wrapped cells need.
func (t *Table) line(lines []string, kept, widths []int, row []string) []string {
	parts, height := make([][]string, len(row)), 1
	for _, i := range kept {
		if t.Columns[i].Wrap && ansi.StringWidth(row[i]) > widths[i] {
			parts[i] = broken(row[i], widths[i])
		} else {
			parts[i] = []string{ansi.Truncate(row[i], widths[i], t.tail())}
		}
		height = max(height, len(parts[i]))
	}
	for n := range height {
		var b strings.Builder
		for at, i := range kept {
			if at > 0 {
				b.WriteString(strings.Repeat(" ", gap))
			}
			text := ""
			if n < len(parts[i]) {
				text = parts[i][n]
			}
			pad := strings.Repeat(" ", max(0, widths[i]-ansi.StringWidth(text)))
			if t.Columns[i].Right {
				b.WriteString(pad + text)
			} else {
				b.WriteString(text + pad)
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}
