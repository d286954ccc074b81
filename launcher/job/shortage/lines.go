package shortage

import "bytes"

// A line is looked at in windows of this many bytes. Neighboring parts share overlap bytes, so a message at a border is
// complete in one of them.
const (
	window  = 16 << 10
	overlap = 4 << 10
)

// segment is a piece of output between line ends; a progress bar's carriage returns part a line into several. Where it
// is longer than a window it comes in several pieces with the same id.
type segment struct {
	text []byte // without its end, valid only during the call; never empty
	line int64  // from 1, as sed and editors count
	id   int64
}

// splitter parts a stream into segments. What it yields depends on the stream alone and not on how it was written, and
// it holds at most one window.
type splitter struct {
	yield func(segment)
	held  []byte // the line so far, where it didn't come in one write
	fresh bool   // held has bytes that no window had
	begun bool   // there were bytes since the last line end
	line  int64  // line ends so far
	id    int64
}

func (s *splitter) write(p []byte) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.begun = true
			s.hold(p)
			return
		}
		line := p[:end]
		if len(s.held) == 0 && len(line) <= window && bytes.IndexByte(line, '\r') < 0 {
			if len(line) > 0 {
				s.yield(segment{text: line, line: s.line + 1, id: s.id})
				s.id++
			}
		} else {
			s.hold(line)
			s.cut()
		}
		s.line++
		s.begun = false
		p = p[end+1:]
	}
}

// hold adds a part of a line.
func (s *splitter) hold(p []byte) {
	for len(p) > 0 {
		if len(s.held) == window {
			s.yield(segment{text: s.held, line: s.line + 1, id: s.id})
			s.held = s.held[:copy(s.held, s.held[window-overlap:])]
			s.fresh = false
		}
		part := p[:min(len(p), window-len(s.held))]
		back := bytes.IndexByte(part, '\r')
		if back >= 0 {
			part = part[:back]
		}
		if s.held == nil {
			s.held = make([]byte, 0, window)
		}
		s.held = append(s.held, part...)
		s.fresh = s.fresh || len(part) > 0
		p = p[len(part):]
		if back >= 0 {
			s.cut()
			p = p[1:]
		}
	}
}

// cut ends the segment.
func (s *splitter) cut() {
	if len(s.held) == 0 {
		return
	}
	if s.fresh {
		s.yield(segment{text: s.held, line: s.line + 1, id: s.id})
	}
	s.held, s.fresh = s.held[:0], false
	s.id++
}

// lines is how many lines there were, a last one without an end included.
func (s *splitter) lines() int64 {
	if s.begun {
		return s.line + 1
	}
	return s.line
}

// end ends the last line, if it has no end.
func (s *splitter) end() {
	s.cut()
	s.line = s.lines()
	s.begun = false
}
