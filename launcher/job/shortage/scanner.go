// Package shortage recognizes messages about exhausted GPU or host memory in a program's output. It covers PyTorch,
// JAX, TensorFlow, CUDA and its libraries, vLLM, Ray, Slurm, the kernel and Python. It distinguishes them from other
// failures, and explains their figures.
//
// It is pure: it reads only the program's output. It never fails, and uses bounded memory for any bytes, such as
// binary data, progress bars, or a line of gigabytes.
package shortage

import (
	"bytes"
	"slices"
	"strings"
)

// Scanner scans output as it arrives. Use it from one goroutine at a time.
type Scanner struct {
	lines splitter
	head  []byte // the first bytes, for Unreadable

	tracebacks map[string]*traceback // by process prefix
	open       open                  // the statement that the next lines may continue

	shortage  Report
	fault     Fault
	statement int64 // segment of the latest shortage
	traced    int64 // line of the latest frame
}

// open is a statement that may continue in the next lines. Terminals, mails and guides wrap lines, and Ray and NCCL
// print two lines.
type open struct {
	of   *statement
	who  string // prefix of its lines
	said string
	left int // lines that may still follow
}

// Limits of a statement: further lines, and bytes.
const (
	maxFurther = 6
	maxSaid    = 8 << 10
)

// echoLines is the number of lines after a shortage in which a failure of another process, or of shared components,
// counts as its consequence. Ranks that wait for a dead rank fail later.
const echoLines = 2000

// stale is the number of lines that a statement or a traceback may wait for its next line.
const stale = 500

// NewScanner returns a Scanner without input.
func NewScanner() *Scanner {
	s := &Scanner{tracebacks: make(map[string]*traceback), statement: -1}
	s.lines.yield = s.look
	return s
}

// Write adds the next bytes. It never fails.
func (s *Scanner) Write(p []byte) (int, error) {
	if len(s.head) < headBytes {
		s.head = append(s.head, p[:min(len(p), headBytes-len(s.head))]...)
	}
	s.lines.write(p)
	return len(p), nil
}

// Close ends a last line without a newline. Later bytes begin a new line.
func (s *Scanner) Close() { s.lines.end() }

// Lines returns the number of lines read.
func (s *Scanner) Lines() int64 { return s.lines.lines() }

// Shortage returns the latest shortage, and whether there was one.
func (s *Scanner) Shortage() (Report, bool) {
	r := s.shortage
	r.Holders = append([]Holder(nil), r.Holders...)
	return r, r.Times > 0
}

// Fault returns the latest failure with another cause than memory, and whether there was one. It excludes failures
// soon after a shortage that only report another process's end, and exceptions raised while a shortage is handled.
func (s *Scanner) Fault() (Fault, bool) { return s.fault, s.fault.Kind != "" }

// Failed reports whether the latest failure is a shortage. If the program failed, that shortage is the cause. A
// program that caught a shortage and failed later for another reason did not fail because of memory.
func (s *Scanner) Failed() bool {
	return s.shortage.Times > 0 && s.shortage.LineNumber >= s.fault.LineNumber
}

// triggers occur in every relevant line. Most lines have none and are skipped.
var triggers = [][]byte{
	[]byte("emory"), []byte("MEMORY"), []byte("rror"), []byte("xception"), []byte("lloc"), []byte("ALLOC"), []byte("OOM"), []byte("oom"),
	[]byte("illed"), []byte(", line "), []byte("Traceback"), []byte("ssert"), []byte("NCCL"), []byte("Errno"), []byte("Resource"),
	[]byte("egmentation fault"), []byte("Xid"), []byte("CUDA"), []byte("driver"), []byte("During"), []byte("o space left"), []byte("Aborted"),
	[]byte("return code"),
}

func hasAny(text []byte, parts [][]byte) bool {
	return slices.ContainsFunc(parts, func(p []byte) bool { return bytes.Contains(text, p) })
}

// signs occur in statements, faults and tracebacks. Most lines with a trigger have none of these.
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

// look scans one segment.
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
		return // the frame's source line
	}
	s.read(g, who, said, trace)
	if trace != nil && trace.any != "" {
		delete(s.tracebacks, who)
	}
}

// forget ends statements and tracebacks without a continuation. Otherwise a process that died within its traceback
// would make every later line slow to scan.
func (s *Scanner) forget(line int64) {
	if s.open.left > 0 && line-s.shortage.LineNumber > stale {
		s.open.left = 0
	}
	if len(s.tracebacks) > 0 && line-s.traced > stale {
		clear(s.tracebacks)
	}
}

// begin handles the first line of a traceback, or the text between two.
func (s *Scanner) begin(who string, chained bool) *traceback {
	if len(s.tracebacks) >= maxTracebacks {
		clear(s.tracebacks)
	}
	t := &traceback{chained: chained}
	s.tracebacks[who] = t
	return t
}

// read looks for a failure in a line that is not a traceback's, except perhaps its end.
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
	// A very long line is quoted from the statement on.
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

// echoOfFault reports whether a statement is only the consequence of a fault.
func (s *Scanner) echoOfFault(line int64, st *statement) bool {
	return st.echoes != "" && s.fault.Kind == st.echoes && line-s.fault.LineNumber <= echoLines
}

// echo reports whether a failure is only the consequence of a shortage.
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
