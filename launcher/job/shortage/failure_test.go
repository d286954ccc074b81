package shortage

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const handle = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n"

const oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"

func TestWhichFailureIsTheLast(t *testing.T) {
	assertion := "Traceback (most recent call last):\n  File \"train.py\", line 4, in <module>\n    assert x\nAssertionError\n"
	steps := strings.Repeat("step\n", echoLines+1)
	for _, c := range []struct {
		name, log string
		memory    bool
	}{
		{"nothing", steps, false},
		{"a shortage", oom, true},
		{"handled, then an assertion", oom + steps + assertion, false},
		{"handled, then an assertion at once", oom + assertion, false},
		{"an assertion, then a shortage", assertion + oom, true},
		{"the launcher's report", oom + "Traceback (most recent call last):\n  File \"torchrun\", line 8, in <module>\n" +
			"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n", true},
		{"the other rank waits in vain", oom + "[rank1]: torch.distributed.DistBackendError: NCCL error in: x\n", true},
		{"handled, then NCCL's timeout", oom + steps + "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)\n", false},
		{"killed after it", oom + "Killed\n", true},
		{"raised while it was handled", "Traceback (most recent call last):\n  File \"train.py\", line 4, in <module>\n" + oom +
			"\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n" +
			"  File \"train.py\", line 9, in <module>\n    raise RuntimeError('step failed')\nRuntimeError: step failed\n", true},
		{"a handle that can't be made", handle, true},
		{"a handle after a device-side assert", "Indexing.cu:1237: index: block: [0,0,0], thread: [0,0,0] Assertion `i < n` failed.\n" + handle, false},
		{"a device-side assert", oom + "RuntimeError: CUDA error: device-side assert triggered\n", false},
	} {
		s := scan([]byte(c.log))
		if s.Failed() != c.memory {
			r, _ := s.Shortage()
			f, _ := s.Fault()
			t.Errorf("%s: memory %t, want %t\n%+v\n%+v", c.name, s.Failed(), c.memory, r, f)
		}
	}
}

func TestATracebackThatEndsNowhereIsForgotten(t *testing.T) {
	s := NewScanner()
	s.Write([]byte("[rank1]: Traceback (most recent call last):\n[rank1]:   File \"a.py\", line 3, in f\n"))
	if len(s.tracebacks) != 1 {
		t.Fatal("no traceback")
	}
	s.Write([]byte(strings.Repeat("step\n", stale+2)))
	if len(s.tracebacks) != 0 {
		t.Error("kept")
	}
	s.Write([]byte("[rank1]: " + oom))
	if r, ok := s.Shortage(); !ok || r.Where != "" {
		t.Errorf("%+v", r)
	}
}

func TestManyRanksAreHeldInBounds(t *testing.T) {
	s := NewScanner()
	for i := range 10 * maxTracebacks {
		fmt.Fprintf(s, "[rank%d]: Traceback (most recent call last):\n", i)
	}
	check(t, s)
}

func TestWhatCantBeReadIsNamed(t *testing.T) {
	wide := func(text string) []byte {
		var b []byte
		for _, c := range []byte(text) {
			b = append(b, c, 0)
		}
		return b
	}
	for _, c := range []struct {
		data []byte
		want string
	}{
		{[]byte(oom), ""},
		{nil, ""},
		{[]byte("\xef\xbb\xbf" + oom), ""},
		{append([]byte("\xff\xfe"), wide(oom)...), "UTF-16"},
		{wide(oom), "UTF-16"},
		{append([]byte{0}, wide(oom)...), "UTF-16"},
		{[]byte("\x1f\x8b\x08\x00"), "compressed with gzip"},
		{[]byte("\x00\x01binary\x00\x02 more \xff"), ""},
	} {
		if got := scan(c.data).Unreadable(); got != c.want {
			t.Errorf("%.20q: %q, want %q", c.data, got, c.want)
		}
	}
}

func TestSizesAreReadAsTheyArePrinted(t *testing.T) {
	for text, want := range map[string]int64{
		"17.66 GiB": g(17.66), "20.00 MiB": 20 << 20, "0 bytes": 0, "2.99GiB": g(2.99), "8,000,000,000 bytes": 8e9, "41.2 GB": 41200000000,
		"117. GiB": 117 << 30, "12 parsecs": 0, "GiB": 0, "": 0, "9999999999 TiB": 0, "1.2.3 GiB": 0, "640 kb": 640000, "7": 7,
	} {
		if got := parseSize(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got := parseBinary("1.51G"); got != g(1.51) {
		t.Error(got)
	}
	for _, c := range []struct {
		shape, element string
		want           int64
	}{
		{"2,3", "float", 24}, {"", "float", 0}, {"2,3", "string", 0}, {"0,5", "half", 0}, {"-1,5", "half", 0},
		{"99999999999,99999999999,99999999999", "float", 0},
	} {
		if got := tensorBytes(c.shape, c.element); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestWhatTheFiguresMean(t *testing.T) {
	read := func(name string) Report {
		r, _ := scan(samples(t, "shortages.txtar")[name]).Shortage()
		return r
	}
	if r := read("guide-1"); len(r.Warnings()) != 1 || !strings.Contains(r.Warnings()[0], "100.77 GiB allocated exceeds the GPU's 79.18 GiB") || r.Crowded() {
		t.Errorf("%q, crowded %t", r.Warnings(), r.Crowded())
	}
	if r := read("torch-2.5-neighbour"); !r.Crowded() || r.Others() != mib(15.53)+g(7.75) || r.Fragmented() {
		t.Errorf("crowded %t, others %d", r.Crowded(), r.Others())
	}
	// In a container the process itself is among the holders: 75.72 GiB are its 74.09 and 0.09 GiB plus overhead.
	if got, want := read("torch-2.6-wrapped-container").Neighbours(), []Holder{{834991, mib(520)}, {859101, g(2.06)}}; !reflect.DeepEqual(got, want) {
		t.Errorf("neighbours %v", got)
	}
	if r := read("verl-ray"); r.Crowded() || r.Others() != 0 {
		t.Errorf("others %d", r.Others())
	}
	if r := read("torch-2.5-fragmented"); !r.Fragmented() || len(r.Warnings()) != 0 {
		t.Errorf("%q", r.Warnings())
	}
	if r := read("torch-1.0-cached"); len(r.Warnings()) != 1 || !strings.Contains(r.Warnings()[0], "were free and only") {
		t.Errorf("%q", r.Warnings())
	}
	// Before 2.1 PyTorch does not name the neighbors. Memory that is neither free nor PyTorch's belongs to them.
	if r := read("torch-1.5-reserved"); r.Others() != r.Total-r.Free-g(13.71) || r.Crowded() {
		t.Errorf("others %d", r.Others())
	}
	if r := read("torch-cpu"); r.Others() != 0 || r.Fragmented() || len(r.Warnings()) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestEveryPatternCompilesAndEveryFieldHasOneGroup(t *testing.T) {
	for _, s := range statements {
		s.says.get()
	}
	for _, f := range faultTexts {
		f.says.get()
	}
	for _, list := range [][]field{torchFields, mpsFields, tensorAsked, xlaFields, cpuAllocatorFields, cudaFields, vllmFields, rayFields, hostFields} {
		for _, f := range list {
			if f.from.get().NumSubexp() != 1 {
				t.Errorf("%s has no one group", f.from.text)
			}
		}
	}
}
