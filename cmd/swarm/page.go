package main

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/table"
)

// usualWidth is the width of a terminal that does not tell its own.
const usualWidth = 80

// page returns an empty page for stdout. Whoever prints on it ends with Flush.
func (g *globals) page() *table.Page {
	return table.NewPage(g.stdout, screenOf(g.stdout, os.Environ()))
}

// print prints what write puts on a page for stdout.
func (g *globals) print(write func(p *table.Page)) error {
	p := g.page()
	write(p)
	return p.Flush()
}

// errorPage is where a command puts what it asks about, on stderr.
func (g *globals) errorPage() *table.Page {
	return table.NewPage(g.stderr, screenOf(g.stderr, os.Environ()))
}

// factTable is a table of names, values and notes beneath a heading of its own.
func factTable() *table.Table {
	t := table.New(table.Column{}, table.Column{}, table.Column{Wrap: true})
	t.Indent = 2
	return t
}

// screenOf is what out is laid out for: COLUMNS where it is set, so that watch(1) works, else the terminal's width. A pipe or a file has none.
func screenOf(out io.Writer, environ []string) table.Screen {
	s := table.Screen{ASCII: charset.ASCIIOnly(environ)}
	if columns, err := strconv.Atoi(charset.Value(environ, "COLUMNS")); err == nil && columns > 0 {
		s.Width = columns
		return s
	}
	if !isTerminal(out) {
		return s
	}
	s.Width = usualWidth
	if width, _, err := term.GetSize(int(out.(*os.File).Fd())); err == nil && width > 0 {
		s.Width = width
	}
	return s
}
