package main

import (
	"fmt"
	"io"
	"time"
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
		fmt.Fprintf(s.out, "\r\x1b[K%s", text)
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
