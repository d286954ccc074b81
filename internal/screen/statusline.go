package screen

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// StatusLine reports progress of long work. On a terminal it rewrites one line. Elsewhere it prints a new line at
// most once per interval.
type StatusLine struct {
	out     io.Writer
	inPlace bool
	every   time.Duration // interval between lines if out is not a terminal
	last    time.Time
	shown   bool
}

// NewStatusLine returns a StatusLine for out. If out is not a terminal, the first line also waits for the interval.
func NewStatusLine(out io.Writer, every time.Duration) *StatusLine {
	return &StatusLine{out: out, inPlace: IsTerminal(out), every: every, last: time.Now()}
}

// Soon lets the next Say print at once if out is not a terminal.
func (s *StatusLine) Soon() { s.last = time.Time{} }

// Say shows text. If out is not a terminal, it skips the text within the interval after the last line.
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

// End keeps the line and starts a new one.
func (s *StatusLine) End() {
	if s.shown {
		fmt.Fprintln(s.out)
	}
}

// Clear erases the line.
func (s *StatusLine) Clear() {
	if s.shown {
		fmt.Fprint(s.out, "\r\x1b[K")
		s.shown = false
	}
}

// oneRow cuts text to the terminal's width, because a line that wraps cannot be rewritten.
func oneRow(text string, out io.Writer) string {
	file, ok := Stream(out).(*os.File)
	if !ok {
		return text
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if r := []rune(text); err == nil && width > 0 && len(r) >= width {
		return string(r[:width-1])
	}
	return text
}
