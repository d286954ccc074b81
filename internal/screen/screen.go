// Package screen detects the kind of an output: a terminal with a width, or a pipe or file without one. It also writes
// to outputs whose readers may stop.
package screen

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/table"
)

// usualWidth is the assumed width of a terminal that does not report its width.
const usualWidth = 80

// IsTerminal reports whether v is a file that is a terminal, or an Output to one.
func IsTerminal(v any) bool {
	if o, ok := v.(*Output); ok {
		v = o.to
	}
	file, ok := v.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Of returns the screen to lay out for: COLUMNS if it is set, so that watch(1) works, else the terminal's width. A
// pipe or a file has no width.
func Of(out io.Writer, environ []string) table.Screen {
	s := table.Screen{ASCII: charset.ASCIIOnly(environ)}
	if columns, err := strconv.Atoi(charset.Value(environ, "COLUMNS")); err == nil && columns > 0 {
		s.Width = columns
		return s
	}
	if !IsTerminal(out) {
		return s
	}
	s.Width = usualWidth
	if width, _, err := term.GetSize(int(Stream(out).(*os.File).Fd())); err == nil && width > 0 {
		s.Width = width
	}
	return s
}

// Page returns an empty page for out, laid out by this process's environment. The caller ends with Flush.
func Page(out io.Writer) *table.Page { return table.NewPage(out, Of(out, os.Environ())) }

// Print prints what write puts on a page for out.
func Print(out io.Writer, write func(p *table.Page)) error {
	p := Page(out)
	write(p)
	return p.Flush()
}
