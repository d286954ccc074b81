package screen

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// StatusLine reports long work: one line that is rewritten on a terminal, a line now and then elsewhere.
type StatusLine struct {
	out     io.Writer
	inPlace bool
	every   time.Duration // between two lines, where it is no terminal
	last    time.Time
	shown   bool
}

// NewStatusLine returns one for out. Where that is no terminal, the first line too comes after every.
func NewStatusLine(out io.Writer, every time.Duration) *StatusLine {
	return &StatusLine{out: out, inPlace: IsTerminal(out), every: every, last: time.Now()}
}

// Soon makes the next line come at once where out is no terminal.
func (s *StatusLine) Soon() { s.last = time.Time{} }

// Say shows text, or leaves it out where the last line is younger than every.
func (s *StatusLine) Say(text string) {
	switch {
	case s.inPlace:
		fmt.Fprintf(s.out, "\r\x1b[K%s", oneRow(text, s.out))
		s.shown = true
	case time.Since(s.last) >= s.every:
		s.last = time.Now()
		fmt.Fprintln(s.out, text)
	}
}

// End leaves the line where it is.
func (s *StatusLine) End() {
	if s.shown {
		fmt.Fprintln(s.out)
	}
}

// Clear takes the line away again.
func (s *StatusLine) Clear() {
	if s.shown {
		fmt.Fprint(s.out, "\r\x1b[K")
		s.shown = false
	}
}

// oneRow cuts a text to the terminal's width: a line that wraps can't be rewritten.
func oneRow(text string, out io.Writer) string {
	file, ok := out.(*os.File)
	if !ok {
		return text
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if r := []rune(text); err == nil && width > 0 && len(r) >= width {
		return string(r[:width-1])
	}
	return text
}
