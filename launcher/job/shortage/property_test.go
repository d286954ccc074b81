package shortage

import (
	"bytes"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// state is the whole result of a scanner.
type state struct {
	Shortage Report
	Fault    Fault
	Failed   bool
	Lines    int64
	Unread   string
}

func said(s *Scanner) state {
	r, _ := s.Shortage()
	f, _ := s.Fault()
	return state{r, f, s.Failed(), s.Lines(), s.Unreadable()}
}

// pieces returns the parts of generated logs: whole samples, their halves, line ends, noise.
func pieces(t *testing.T) [][]byte {
	list := [][]byte{[]byte("\n"), []byte("\r"), []byte("\r\n"), []byte("\x1b[31m"), []byte("\x00\xff"), []byte("[rank3]: "), []byte("step 12\n"),
		bytes.Repeat([]byte("x"), window-3), bytes.Repeat([]byte("é"), overlap)}
	for _, file := range []string{"shortages.txtar", "others.txtar"} {
		for _, data := range samples(t, file) {
			list = append(list, data, data[:len(data)/2], data[len(data)/2:])
		}
	}
	return list
}

func TestHowTheBytesAreWrittenMakesNoDifference(t *testing.T) {
	list := pieces(t)
	rapid.Check(t, func(t *rapid.T) {
		var data []byte
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(list), 1, 12).Draw(t, "pieces") {
			data = append(data, p...)
		}
		whole := said(scan(data))
		s := NewScanner()
		for p := data; len(p) > 0; {
			n := min(len(p), rapid.SampledFrom([]int{1, 2, 7, 100, 5000, 40000}).Draw(t, "n"))
			if rapid.Bool().Draw(t, "copy") {
				s.Write(append([]byte(nil), p[:n]...))
			} else {
				s.Write(p[:n])
			}
			p = p[n:]
		}
		s.Close()
		if got := said(s); !reflect.DeepEqual(got, whole) {
			t.Fatalf("in parts:\n%+v\nat once:\n%+v", got, whole)
		}
	})
}

func TestByteByByteIsTheSameToo(t *testing.T) {
	for name, data := range samples(t, "shortages.txtar") {
		s := NewScanner()
		for i := range data {
			s.Write(data[i : i+1])
		}
		s.Close()
		if got, whole := said(s), said(scan(data)); !reflect.DeepEqual(got, whole) {
			t.Errorf("%s:\n%+v\nat once:\n%+v", name, got, whole)
		}
	}
}

const message = `RuntimeError: CUDA out of memory. Tried to allocate 2.26 GiB ` +
	`(GPU 0; 6.00 GiB total capacity; 781.59 MiB already allocated; 3.03 GiB free)`

// TestOneLineOfAHundredMegabytesTakesNoMemory has a message in the middle of the line, across the border of two
// windows.
func TestOneLineOfAHundredMegabytesTakesNoMemory(t *testing.T) {
	s := NewScanner()
	block := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 100 {
		if i == 50 {
			s.Write([]byte(message))
		}
		s.Write(block)
	}
	s.Close()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes are held", grown)
	}
	r, ok := s.Shortage()
	if !ok || r.Asked != g(2.26) || r.Free != g(3.03) || r.Times != 1 || r.LineNumber != 1 || s.Lines() != 1 {
		t.Errorf("%+v, %d lines", r, s.Lines())
	}
}

func TestAMessageIsFoundWhereverItStandsInALongLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.IntRange(0, 3*window).Draw(t, "before")
		after := rapid.IntRange(0, 2*window).Draw(t, "after")
		r, _ := scan([]byte(strings.Repeat(" ", before) + message + strings.Repeat("y", after) + "\n")).Shortage()
		if r.Asked != g(2.26) || r.Total != g(6) || r.Free != g(3.03) || r.Times != 1 || !strings.Contains(r.Line, "Tried to allocate") {
			t.Fatalf("%+v", r)
		}
	})
}

// check checks the invariants for any input.
func check(t testing.TB, s *Scanner) {
	t.Helper()
	r, ok := s.Shortage()
	if ok != (r.Kind != "") || ok != (r.Times > 0) {
		t.Errorf("found %t: %+v", ok, r)
	}
	for _, n := range []int64{r.Asked, r.Free, r.Total, r.Allocated, r.Reserved, r.InUse, r.Others()} {
		if n < 0 {
			t.Errorf("negative: %+v", r)
		}
	}
	for _, text := range []string{r.Line, r.Where} {
		if len([]rune(text)) > maxShown+1 || strings.ContainsAny(text, "\n\r\x1b\x00") || !utf8.ValidString(text) {
			t.Errorf("not fit to be shown: %q", text)
		}
	}
	f, _ := s.Fault()
	if len([]rune(f.Line)) > maxShown+1 || !utf8.ValidString(f.Line) {
		t.Errorf("not fit to be shown: %q", f.Line)
	}
	if ok && (r.LineNumber < 1 || r.LineNumber > s.Lines()) {
		t.Errorf("line %d of %d", r.LineNumber, s.Lines())
	}
	if len(r.Holders) > maxHolders || len(s.tracebacks) > maxTracebacks || len(s.open.said) > maxSaid || cap(s.lines.held) > window {
		t.Error("holds more than it may")
	}
	r.Warnings()
	r.Crowded()
	r.Fragmented()
}

func FuzzScanner(f *testing.F) {
	for _, file := range []string{"shortages.txtar", "others.txtar"} {
		for _, data := range samples(f, file) {
			f.Add(data, 10)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		whole := scan(data)
		check(t, whole)
		cut = min(max(cut, 0), len(data))
		parts := NewScanner()
		parts.Write(data[:cut])
		parts.Write(data[cut:])
		parts.Close()
		if a, b := said(whole), said(parts); !reflect.DeepEqual(a, b) {
			t.Errorf("at once:\n%+v\ncut at %d:\n%+v", a, cut, b)
		}
	})
}
