// Package table lays out tables and sentences for a screen of some width. Where a table does not fit, its least
// important columns are left out, and it says so. On a narrow screen its rows become blocks. A pipe has no width:
// everything is written in full.
package table

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/internal/charset"
)

// Screen is what text is laid out for.
type Screen struct {
	Width int  // cells of a line; 0: no limit, as for a pipe
	ASCII bool // show nothing but ASCII
}

// Column is a column of a table.
type Column struct {
	Title string // its heading, and its name in a block
	Name  string // how the line beneath the table calls it where it is left out; empty: the title
	Right bool   // numbers stand at the right
	Drop  int    // 0: never left out; else of two columns the one with more goes first
	Max   int    // the widest cell on a screen that is too narrow for the table, at least 2; 0: no limit. What is longer is cut
	Wrap  bool   // its cells go on in further lines on a screen that is too narrow for the table

	Optional bool // it is not there where all its cells are empty
}

// Table is a table that is to be laid out.
type Table struct {
	Columns []Column
	Indent  int    // cells left of it
	More    string // what shows the columns that are left out, beside a wider terminal; empty: -o json
	plain   bool   // in ASCII
	rows    [][]string
}

// New returns a table of columns without rows.
func New(columns ...Column) *Table { return &Table{Columns: columns} }

// Add adds a row. A cell is one line: line breaks and tabs in it become spaces. Cells beyond the columns are an error
// of the program.
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

// Len is how many rows there are.
func (t *Table) Len() int { return len(t.rows) }

// Lines returns the table for a screen, with its heading where a column has a title.
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

// present returns a copy without the optional columns that are empty.
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

// ascii returns a copy in ASCII.
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

// tail is what stands where a cell is cut.
func (t *Table) tail() string {
	if t.plain {
		return "~"
	}
	return "…"
}

// titled tells whether there is a heading.
func (t *Table) titled() bool {
	for _, c := range t.Columns {
		if c.Title != "" {
			return true
		}
	}
	return false
}

// widths are how many cells each column takes in full.
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
