package supervise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tracerOf is set in the copy of the test binary that traces a process.
const tracerOf = "SUPERVISE_TEST_TRACER_OF"

// A spot VM ends 25 s after its notice, and the coordinator has work left after its nodes have ended.
func TestDefaultStopFitsASpotNotice(t *testing.T) {
	if limit := (Ladder{}).Limit(false); limit != 22*time.Second {
		t.Errorf("a stop may take %s, want 22 s", limit)
	}
}

// The worst case: a child that ignores everything, with pipes that another process holds open, and with a
// BeforeKill.
func TestWorstStopIsWithinItsLimit(t *testing.T) {
	ladder := Ladder{Grace: 200 * time.Millisecond, Term: 200 * time.Millisecond, Kill: 200 * time.Millisecond}
	h := newHousehold(t, time.Hour) // its engine and rank hold its stdout and stderr, and end with it
	c, r, _ := shell(t, `trap '' TERM; setsid sleep 5 & echo '`+loadedLine+`'; while :; do sleep 1000; done`)
	eventually(t, "it has loaded", func() bool { return len(r.all()) > 0 })
	for name, child := range map[string]*Child{"stranger": c, "engine": h.child} {
		begin := time.Now()
		if err := child.Stop(ladder, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(begin); d > ladder.Limit(true) {
			t.Errorf("%s: took %s, the limit is %s", name, d, ladder.Limit(true))
		}
	}
}

// traced makes the end of a child by SIGKILL invisible to its parent: another process traces the child and does not
// wait for it. release ends the tracing.
func traced(t *testing.T, c *Child) (release func()) {
	t.Helper()
	tracer := exec.Command(os.Args[0])
	tracer.Env = append(os.Environ(), tracerOf+"="+strconv.Itoa(c.PID()))
	stdin, err := tracer.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := tracer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		stdin.Close()
		tracer.Wait()
	})
	t.Cleanup(release)
	if said, _ := bufio.NewReader(stdout).ReadString('\n'); said != "traces\n" {
		t.Skipf("no process can be traced here: %q", said)
	}
	return release
}

// playTracer traces a process until its stdin closes.
func playTracer(pid int) {
	runtime.LockOSThread() // the tracer is a thread
	const seize = 0x4206   // PTRACE_SEIZE does not suspend the process
	if _, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, seize, uintptr(pid), 0, 0, 0, 0); errno != 0 {
		fmt.Println(errno)
		os.Exit(1)
	}
	fmt.Println("traces")
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// An unkillable process blocks callers only for the documented limits, and is reaped if it ends later.
func TestWaitsForTheUnkillableAreBounded(t *testing.T) {
	ladder := Ladder{Grace: 100 * time.Millisecond, Term: 100 * time.Millisecond, Kill: 100 * time.Millisecond}
	ends := map[string]func(*Child) error{
		"stop": func(c *Child) error { return c.Stop(ladder, nil) },
		"end, cut short by a stop": func(c *Child) error {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			return c.End(ctx, ladder, nil)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r, _ := shell(t, `echo '`+loadedLine+`'; exec sleep 1000`)
			eventually(t, "it has loaded", func() bool { return len(r.all()) > 0 })
			release := traced(t, c)
			begin := time.Now()
			err := end(c)
			if d := time.Since(begin); !errors.Is(err, ErrUnkillable) || d > ladder.Limit(false)+time.Second {
				t.Errorf("error %v after %s", err, d)
			}
			select {
			case <-c.Done():
				t.Error("done, though it isn't gone")
			default:
			}
			release()
			ended(t, c)
		})
	}
}
