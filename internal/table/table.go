// Package table lays out tables and sentences for a screen of some width. If a table does not fit, the package
// hides the least important columns and names them below the table. On a narrow screen the rows become blocks.
// Output to a pipe has no width limit and contains everything.
package table

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/internal/charset"
)

// Screen describes the screen to lay out for.
type Screen struct {
	Width int  // cells per line; 0: no limit, as for a pipe
	ASCII bool // convert output to ASCII
}

// Column is a column of a table.
type Column struct {
	Title string // heading, and key in a block
	Name  string // name in the note about hidden columns; empty: the title
	Right bool   // right-aligned, for numbers
	Drop  int    // priority for hiding: the highest value goes first; 0: never hidden
	// maximum cell width if the table is too wide for the screen, at least 2; 0: no limit. Longer cells are cut
	Max  int
	Wrap bool // wrap cells onto more lines if the table is too wide for the screen

	Optional bool // omit the column if all its cells are empty
}

// Table is a table to lay out.
type Table struct {
	Columns []Column
	Indent  int    // blank cells to the left of the table
	More    string // how to see hidden columns, other than with a wider terminal; empty: -o json
	plain   bool   // ASCII only
	rows    [][]string
}

// New returns a table with these columns and no rows.
func New(columns ...Column) *Table { return &Table{Columns: columns} }

// Add adds a row. It turns line breaks and tabs in a cell into spaces. It panics if the row has more cells than the
// table has columns.
func (t *Table) Add(row ...string) {
	if len(row) > len(t.Columns) {
		panic("table: a row with more cells than columns")
	}
	cells := make([]string, len(t.Columns))
	for i, text := range row {
		cells[i] = strings.Map(func(r rune) rune {
			if r == '\n' || r == '\r' || r == '\t' {
				return ' '
			}
			return r
		}, text)
	}
	t.rows = append(t.rows, cells)
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Lines returns the table laid out for a screen, with a heading if any column has a title.
func (t *Table) Lines(s Screen) []string {
	t = t.present()
	if s.ASCII {
		t = t.ascii()
	}
	width := 0
	if s.Width > 0 {
		width = max(1, s.Width-t.Indent)
	}
	lines := t.fit(width)
	indent := strings.Repeat(" ", t.Indent)
	for i, line := range lines {
		lines[i] = strings.TrimRight(indent+line, " ")
	}
	return lines
}

// present returns a copy without optional columns that are empty.
func (t *Table) present() *Table {
	kept := &Table{Indent: t.Indent, More: t.More, rows: make([][]string, len(t.rows))}
	for i, c := range t.Columns {
		if c.Optional && !slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "" }) {
			continue
		}
		kept.Columns = append(kept.Columns, c)
		for n, row := range t.rows {
			kept.rows[n] = append(kept.rows[n], row[i])
		}
	}
	return kept
}

// ascii returns a copy converted to ASCII.
func (t *Table) ascii() *Table {
	plain := &Table{Columns: make([]Column, len(t.Columns)), Indent: t.Indent, More: charset.Text(t.More), plain: true}
	for i, c := range t.Columns {
		c.Title, c.Name = charset.Text(c.Title), charset.Text(c.Name)
		plain.Columns[i] = c
	}
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = charset.Text(cell)
		}
		plain.rows = append(plain.rows, cells)
	}
	return plain
}

// tail returns the mark at the end of a cut cell.
func (t *Table) tail() string {
	if t.plain {
		return "~"
	}
	return "…"
}

// titled reports whether any column has a title.
func (t *Table) titled() bool {
	for _, c := range t.Columns {
		if c.Title != "" {
			return true
		}
	}
	return false
}

// widths returns the full width of each column, in cells.
func (t *Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = ansi.StringWidth(c.Title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], ansi.StringWidth(row[i]))
		}
	}
	return widths
}
