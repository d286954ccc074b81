package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// statusLine tells of long work: one line that is rewritten on a terminal, a line now and then elsewhere.
type statusLine struct {
	out     io.Writer
	inPlace bool
	every   time.Duration // between two lines, where it is no terminal
	last    time.Time
	shown   bool
}

// newStatusLine returns one for out. Where that is no terminal, the first line too comes after every.
func newStatusLine(out io.Writer, every time.Duration) *statusLine {
	return &statusLine{out: out, inPlace: isTerminal(out), every: every, last: time.Now()}
}

func (s *statusLine) say(text string) {
	switch {
	case s.inPlace:
		fmt.Fprintf(s.out, "\r\x1b[K%s", oneRow(text, s.out))
		s.shown = true
	case time.Since(s.last) >= s.every:
		s.last = time.Now()
		fmt.Fprintln(s.out, text)
	}
}

// end leaves the line where it is.
func (s *statusLine) end() {
	if s.shown {
		fmt.Fprintln(s.out)
	}
}

// clear takes the line away again.
func (s *statusLine) clear() {
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
