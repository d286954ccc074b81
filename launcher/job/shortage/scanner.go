// Package shortage recognizes messages about exhausted GPU or host memory in a program's output: those of PyTorch, JAX,
// TensorFlow, CUDA and its libraries, vLLM, Ray, Slurm, the kernel and Python. It distinguishes them from other
// failures, and explains their figures.
//
// It is pure: what it knows is what was written to it. It never fails and holds a bounded amount of memory, whatever
// the bytes are: binary ones, progress bars, a line of gigabytes.
package shortage

import (
	"bytes"
	"slices"
	"strings"
)

// Scanner reads output as it comes. It is for one goroutine at a time.
type Scanner struct {
	lines splitter
	head  []byte // the first bytes, for Unreadable

	tracebacks map[string]*traceback // by the process that prints it
	open       open                  // the statement that the next lines may go on with

	shortage  Report
	fault     Fault
	statement int64 // the latest shortage's segment
	traced    int64 // the line of the latest frame
}

// open is a statement that may go on in the next lines: a terminal, a mail or a guide wraps it, and Ray and NCCL say it
// in two.
type open struct {
	of   *statement
	who  string // what stands in front of its lines
	said string
	left int // lines that it may still have
}

// A statement takes at most so many further lines, and bytes.
const (
	maxFurther = 6
	maxSaid    = 8 << 10
)

// echoLines is how far behind a shortage a failure of another process, or of what they share, is taken for its echo:
// the ranks that wait for one which is gone fail too, and later.
const echoLines = 2000

// stale is how many lines a statement, or a traceback, may wait for its next one.
const stale = 500

// NewScanner returns one that has read nothing.
func NewScanner() *Scanner {
	s := &Scanner{tracebacks: make(map[string]*traceback), statement: -1}
	s.lines.yield = s.look
	return s
}

// Write takes the next bytes. It never fails.
func (s *Scanner) Write(p []byte) (int, error) {
	if len(s.head) < headBytes {
		s.head = append(s.head, p[:min(len(p), headBytes-len(s.head))]...)
	}
	s.lines.write(p)
	return len(p), nil
}

// Close takes a last line that has no end. What is written after it begins a new line.
func (s *Scanner) Close() { s.lines.end() }

// Lines is how many lines were read.
func (s *Scanner) Lines() int64 { return s.lines.lines() }

// Shortage is the latest shortage, and whether there was one.
func (s *Scanner) Shortage() (Report, bool) {
	r := s.shortage
	r.Holders = append([]Holder(nil), r.Holders...)
	return r, r.Times > 0
}

// Fault is the latest failure that memory did not cause, and whether there was one. What follows a shortage closely and
// only tells that another process is gone, or is raised while a shortage is handled, is none.
func (s *Scanner) Fault() (Fault, bool) { return s.fault, s.fault.Kind != "" }

// Failed is whether the latest failure is a shortage: the one to act upon where the program then failed. A program that
// caught a shortage, went on and failed of something else later did not fail of memory.
func (s *Scanner) Failed() bool {
	return s.shortage.Times > 0 && s.shortage.LineNumber >= s.fault.LineNumber
}

// triggers are in every line that could matter; most lines have none, and are left at that.
var triggers = [][]byte{
	[]byte("emory"), []byte("MEMORY"), []byte("rror"), []byte("xception"), []byte("lloc"), []byte("ALLOC"), []byte("OOM"), []byte("oom"),
	[]byte("illed"), []byte(", line "), []byte("Traceback"), []byte("ssert"), []byte("NCCL"), []byte("Errno"), []byte("Resource"),
	[]byte("egmentation fault"), []byte("Xid"), []byte("CUDA"), []byte("driver"), []byte("During"), []byte("o space left"), []byte("Aborted"),
	[]byte("return code"),
}

func hasAny(text []byte, parts [][]byte) bool {
	return slices.ContainsFunc(parts, func(p []byte) bool { return bytes.Contains(text, p) })
}

// signs is what statements, faults and tracebacks have. Of the lines with a trigger, most have none of these.
var signs = func() [][]byte {
	list := [][]byte{[]byte("Traceback (most"), []byte(`File "`), []byte("During handling of"), []byte("The above exception"), []byte("Error executing")}
	for _, s := range statements {
		for _, has := range s.has {
			list = append(list, []byte(has))
		}
	}
	for _, f := range faultTexts {
		for _, has := range f.has {
			list = append(list, []byte(has))
		}
	}
	return list
}()

// look reads one segment.
func (s *Scanner) look(g segment) {
	s.forget(g.line)
	if s.open.left == 0 && len(s.tracebacks) == 0 && !(hasAny(g.text, triggers) && hasAny(g.text, signs)) {
		return
	}
	who, said := split(plain(g.text))
	trace := s.tracebacks[who]
	switch {
	case strings.HasPrefix(said, "Traceback (most recent call last)"), strings.HasPrefix(said, "Error executing job"):
		s.begin(who, trace != nil && trace.chained)
		s.traced = g.line
		s.open.left = 0
		return
	case chains(said):
		s.begin(who, s.Failed())
		s.traced = g.line
		return
	case strings.Contains(said, `File "`):
		if m := frame.groups(said); m != nil {
			if trace == nil {
				trace = s.begin(who, false)
			}
			trace.add(m)
			s.traced = g.line
			s.open.left = 0
			return
		}
	}
	if trace != nil && strings.HasPrefix(said, "    ") {
		return // the frame's line of code
	}
	s.read(g, who, said, trace)
	if trace != nil && trace.any != "" {
		delete(s.tracebacks, who)
	}
}

// forget ends what nobody went on with: a process that died in the middle of its traceback must not make every later
// line worth a look.
func (s *Scanner) forget(line int64) {
	if s.open.left > 0 && line-s.shortage.LineNumber > stale {
		s.open.left = 0
	}
	if len(s.tracebacks) > 0 && line-s.traced > stale {
		clear(s.tracebacks)
	}
}

// begin is for the first line of a traceback, or the words between two.
func (s *Scanner) begin(who string, chained bool) *traceback {
	if len(s.tracebacks) >= maxTracebacks {
		clear(s.tracebacks)
	}
	t := &traceback{chained: chained}
	s.tracebacks[who] = t
	return t
}

// read looks for a failure in a line that is no part of a traceback but maybe its end.
func (s *Scanner) read(g segment, who, said string, trace *traceback) {
	if st, at := find(said); st != nil && !s.echoOfFault(g.line, st) {
		s.short(g, st, who, said, at, trace)
		return
	}
	if s.open.left > 0 && who == s.open.who {
		s.goOn(said)
	}
	kind := findFault(said)
	ends := trace != nil && trace.any != "" && exception.in(said)
	if kind == "" && ends {
		kind = Exception
	}
	if kind == "" || s.echo(g.line, kind, said, ends && trace.chained) {
		return
	}
	s.fault = Fault{Kind: kind, Line: shorten(said), LineNumber: g.line}
}

// short records a shortage.
func (s *Scanner) short(g segment, st *statement, who, said string, at int, trace *traceback) {
	r := Report{Kind: st.kind, OnHost: st.onHost, GPU: -1, LineNumber: g.line, Times: s.shortage.Times + 1}
	// A line of gigabytes is quoted from where it says so.
	if len(said) > maxSaid {
		said = strings.ToValidUTF8(said[max(0, min(at, len(said)-maxSaid)):][:maxSaid], "")
	}
	r.Line = shorten(said)
	if trace != nil {
		r.Where = trace.where()
	}
	st.read(said, &r)
	if s.statement == g.id {
		r.Times--
		r.fill(s.shortage)
	}
	s.shortage, s.statement = r, g.id
	s.open = open{of: st, who: who, said: said, left: maxFurther}
}

// goOn adds a line to the open statement.
func (s *Scanner) goOn(said string) {
	s.open.left--
	if len(s.open.said)+len(said) > maxSaid {
		s.open.left = 0
		return
	}
	s.open.said += " " + strings.TrimSpace(said)
	s.open.of.read(s.open.said, &s.shortage)
}

// echoOfFault is whether a statement is only what a fault brought about.
func (s *Scanner) echoOfFault(line int64, st *statement) bool {
	return st.echoes != "" && s.fault.Kind == st.echoes && line-s.fault.LineNumber <= echoLines
}

// echo is whether a failure is only what a shortage brought about.
func (s *Scanner) echo(line int64, kind FaultKind, said string, chained bool) bool {
	if !s.Failed() || line-s.shortage.LineNumber > echoLines {
		return false
	}
	switch kind {
	case Exception:
		return chained || echo.in(said)
	case NCCL, Signal:
		return true
	}
	return echo.in(said)
}
