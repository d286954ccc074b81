package attempt_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/launcher/job/attempt"
)

// playVariable selects the launcher role that the test binary plays.
const playVariable = "COMMAND_TEST_PLAY"

func TestMain(m *testing.M) {
	switch os.Getenv(playVariable) {
	case "":
		os.Exit(hermetic.Main(m))
	case "print pid": // and wait for the end
		p, err := attempt.Start(attempt.Spec{Path: "/bin/sleep", Args: []string{"1000"}})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
		p.Wait()
	case "closed stdout": // its reader is gone
		p, err := attempt.Start(attempt.Spec{Path: "/bin/sh", Args: []string{"-c", "echo one; echo two; exit 7"}, Stdout: os.Stdout})
		if err != nil {
			os.Exit(1)
		}
		os.Exit(p.Wait().Status())
	}
}

// record keeps its input and is readable at any time.
type record struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.String()
}

// run is one attempt with its output.
type run struct {
	*attempt.Process
	out, err, log, warned record
}

// begin starts an attempt. change may be nil. The test's end kills the rest of the attempt.
func begin(t testing.TB, change func(*attempt.Spec), path string, args ...string) *run {
	t.Helper()
	r := &run{}
	spec := attempt.Spec{
		Path: path, Args: args, Stdout: &r.out, Stderr: &r.err, Log: &r.log, Interval: 20 * time.Millisecond, Grace: 10 * time.Second,
		Warn: func(line string) { fmt.Fprintln(&r.warned, line) },
	}
	if change != nil {
		change(&spec)
	}
	p, err := attempt.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	r.Process = p
	t.Cleanup(func() { p.Kill() })
	return r
}

func shell(t testing.TB, script string) *run {
	t.Helper()
	return begin(t, nil, "/bin/sh", "-c", script)
}

// hasty gives a script's remaining processes a short grace time.
func hasty(t testing.TB, script string) *run {
	t.Helper()
	return begin(t, func(s *attempt.Spec) { s.Grace = 100 * time.Millisecond }, "/bin/sh", "-c", script)
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// said waits for a text in the output and returns the whole output.
func (r *run) said(t testing.TB, text string) string {
	t.Helper()
	eventually(t, "the output has "+text, func() bool { return strings.Contains(r.out.String(), text) })
	return r.out.String()
}

// numbers waits for n numbers in the output.
func (r *run) numbers(t testing.TB, n int) (found []int) {
	t.Helper()
	eventually(t, "the output has its numbers", func() bool { return strings.Count(r.out.String(), "\n") >= n })
	for line := range strings.Lines(r.out.String()) {
		var number int
		if _, err := fmt.Sscan(line, &number); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		found = append(found, number)
	}
	return found
}

// runs reports whether a process exists and is not a zombie.
func runs(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// counter counts bytes.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

var _ io.Writer = (*counter)(nil)
