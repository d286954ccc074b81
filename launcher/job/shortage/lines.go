package shortage

import "bytes"

// A line is searched in windows of this many bytes. Adjacent windows share overlap bytes, so a message at a border is
// complete in one of them.
const (
	window  = 16 << 10
	overlap = 4 << 10
)

// segment is a piece of output between line ends. Carriage returns, as of a progress bar, split a line into several
// segments. A segment longer than a window arrives in several pieces with the same id.
type segment struct {
	text []byte // without the line end, valid only during the call; never empty
	line int64  // from 1, like sed and editors
	id   int64
}

// splitter splits a stream into segments. The segments don't depend on how the stream was split into writes. splitter
// holds at most one window.
type splitter struct {
	yield func(segment)
	held  []byte // the line so far, if it arrived in several writes
	fresh bool   // held has bytes that no window had
	begun bool   // some bytes since the last line end
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

// hold appends a part of a line.
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

// lines returns the number of lines, including a last one without a line end.
func (s *splitter) lines() int64 {
	if s.begun {
		return s.line + 1
	}
	return s.line
}

// end ends a last line without a line end.
func (s *splitter) end() {
	s.cut()
	s.line = s.lines()
	s.begun = false
}
