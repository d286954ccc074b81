package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

const testPatience = 300 * time.Millisecond

var quick = Ladder{Grace: 200 * time.Millisecond, Term: 200 * time.Millisecond, Kill: 5 * time.Second}

// recorder collects a child's events.
type recorder struct {
	mu     sync.Mutex
	events []event.Event
}

func (r *recorder) record(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) all() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]event.Event(nil), r.events...)
}

// shell starts a shell script as a child and checks at the end of the test that its group has no process left.
func shell(t *testing.T, script string) (*Child, *recorder, string) {
	t.Helper()
	dir := t.TempDir()
	var r recorder
	c, err := Start(Process{
		Path: "/bin/sh", Args: []string{"-c", script}, Env: append(os.Environ(), "DIR="+dir),
		LogPath: filepath.Join(dir, "log.txt"), PIDPath: filepath.Join(dir, PIDFileName), Patience: testPatience,
	}, r.record)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Condemn(event.CauseStopped, "test over")
		<-c.Done()
		eventually(t, "the process group is empty", func() bool { return !groupRuns(t, c.PID()) })
		if _, err := os.Stat(filepath.Join(dir, PIDFileName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("pid file left: %v", err)
		}
	})
	return c, &r, dir
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func ended(t *testing.T, c *Child) Exit {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the child does not end")
	}
	return c.Exit()
}

const loadedLine = `{"type":"loaded","loaded":{"model":"nano"}}`

func TestEventsAndGarbage(t *testing.T) {
	c, r, _ := shell(t, `
echo '{"type":"state","state":"loading","time":12.5}'
echo 'Setting pad_token_id to eos_token_id'
echo '123'
echo '{"type":"exit","exit_code":0}'
echo '{"type":"round"}'
echo '{"type":"memory_step"}'
echo '{"type":"memory_step","memory_step":{"action":"clear_cache"}}'
echo '`+loadedLine+`'
echo '{"type":"state","state":"done"}'
printf '{"type":"warning","mess'`)
	exit := ended(t, c)
	if v := exit.Verdict(); v.State != event.StateDone {
		t.Errorf("verdict %+v", v)
	}
	var got []string
	for _, e := range r.all() {
		got = append(got, string(e.Type))
		if e.Time == 0 {
			t.Errorf("an event without a time: %+v", e)
		}
	}
	if want := "state warning warning warning warning warning memory_step loaded state"; strings.Join(got, " ") != want {
		t.Errorf("events %q, want %q", got, want)
	}
	if r.all()[0].Time != 12.5 {
		t.Error("the node's own time was overwritten")
	}
}

func TestGarbageWarningsAreBounded(t *testing.T) {
	c, r, _ := shell(t, `i=0; while [ $i -lt 500 ]; do echo garbage; i=$((i+1)); done`)
	ended(t, c)
	if n := len(r.all()); n != maxWarnings {
		t.Errorf("%d warnings, want %d", n, maxWarnings)
	}
}

func TestEndlessLineIsFatal(t *testing.T) {
	c, _, _ := shell(t, `head -c 6000000 /dev/zero | tr '\0' x; exec sleep 1000`)
	if v := ended(t, c).Verdict(); v.Cause != event.CauseEngine || !strings.Contains(v.Message, "line") {
		t.Errorf("verdict %+v", v)
	}
}

func TestClosedStdoutIsFatal(t *testing.T) {
	c, _, _ := shell(t, `echo '`+loadedLine+`'; exec sleep 1000 >&-`)
	if v := ended(t, c).Verdict(); v.Cause != event.CauseEngine || !v.Heals {
		t.Errorf("verdict %+v", v)
	}
}

func TestStderrFlood(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log.txt")
	c, err := Start(Process{
		Path: "/bin/sh", Args: []string{"-c", `head -c 3000000 /dev/zero | tr '\0' x >&2; echo >&2; echo the end >&2; exit 7`},
		LogPath: path, LogLimit: 1 << 20,
	}, func(event.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	exit := ended(t, c)
	if exit.Code != 7 || !strings.HasSuffix(exit.Tail, "the end\n") || len(exit.Tail) > tailSize {
		t.Errorf("code %d, tail of %d bytes", exit.Code, len(exit.Tail))
	}
	for _, name := range []string{path, path + ".1"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 1<<20 {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
	}
}

func TestStopLadder(t *testing.T) {
	tests := []struct {
		name, script string
		state        event.State
		message      string
	}{
		{"stops when asked", `echo '` + loadedLine + `'; read start; echo '{"type":"state","state":"stopped"}'`, event.StateStopped, "by request"},
		{"needs SIGTERM", `echo '` + loadedLine + `'; exec sleep 1000`, event.StateFailed, "did not stop in time"},
		{"needs SIGKILL", `trap '' TERM; echo '` + loadedLine + `'; while :; do sleep 1000; done`, event.StateFailed, "did not stop in time"},
		{"is stopped by a signal", `echo '` + loadedLine + `'; kill -STOP $$; sleep 1000`, event.StateFailed, "did not stop in time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, r, _ := shell(t, tt.script)
			eventually(t, "it has loaded", func() bool { return len(r.all()) > 0 })
			if err := c.Stop(quick, nil); err != nil {
				t.Fatal(err)
			}
			if v := c.Exit().Verdict(); v.State != tt.state || v.Cause != event.CauseStopped || !strings.Contains(v.Message, tt.message) {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

// A service that shares a GPU must be told about each process that is about to be killed, including the engine,
// once and while it is still running.
func TestBeforeKill(t *testing.T) {
	ends := map[string]func(*Child) error{
		"stop": func(c *Child) error { return c.Stop(quick, nil) },
		"end":  func(c *Child) error { return c.End(t.Context(), quick, nil) },
		"condemn": func(c *Child) error {
			c.Condemn(event.CauseStalled, "test")
			c.Condemn(event.CauseStalled, "test")
			return nil
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var mu sync.Mutex
			var calls [][]int
			var alive []bool
			c, err := Start(Process{
				Path: "/bin/sh", Args: []string{"-c", `trap '' TERM; setsid sleep 1000 & echo $! >$DIR/engine; while :; do sleep 1000; done`},
				Env: append(os.Environ(), "DIR="+dir), LogPath: filepath.Join(dir, "log.txt"), Patience: testPatience,
				BeforeKill: func(pids []int) {
					mu.Lock()
					defer mu.Unlock()
					calls = append(calls, pids)
					stat, err := ReadStat(pids[0])
					alive = append(alive, err == nil && stat.State != 'Z')
				},
			}, func(event.Event) {})
			if err != nil {
				t.Fatal(err)
			}
			var engine int
			eventually(t, "the engine runs", func() bool {
				data, _ := os.ReadFile(filepath.Join(dir, "engine"))
				_, err := fmt.Sscan(string(data), &engine)
				return err == nil
			})
			defer syscall.Kill(engine, syscall.SIGKILL) // it is in another group, like a node's engine
			if err := end(c); err != nil {
				t.Fatal(err)
			}
			ended(t, c)
			mu.Lock()
			defer mu.Unlock()
			if len(calls) != 1 || calls[0][0] != c.PID() || !slices.Contains(calls[0], engine) || !alive[0] {
				t.Errorf("called with %v (alive %v), want once with %d and %d", calls, alive, c.PID(), engine)
			}
		})
	}
}

func TestOrderlyEndsNeedNoBeforeKill(t *testing.T) {
	dir := t.TempDir()
	called := false
	c, err := Start(Process{
		Path: "/bin/sh", Args: []string{"-c", `read stop`}, LogPath: filepath.Join(dir, "log.txt"),
		BeforeKill: func([]int) { called = true },
	}, func(event.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(Ladder{}, nil); err != nil || called {
		t.Errorf("error %v, called: %t", err, called)
	}
}

func TestHurryCutsGraceShort(t *testing.T) {
	c, r, _ := shell(t, `trap '' TERM; echo '`+loadedLine+`'; while :; do sleep 1000; done`)
	eventually(t, "it has loaded", func() bool { return len(r.all()) > 0 })
	hurry := make(chan struct{})
	close(hurry)
	begin := time.Now()
	if err := c.Stop(Ladder{Grace: time.Minute, Term: time.Minute}, hurry); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("took %s", d)
	}
	if exit := c.Exit(); exit.Signal != syscall.SIGKILL {
		t.Errorf("ended by %v", exit.Signal)
	}
}

// A grandchild that keeps the pipes open must neither outlive the child nor block its owner.
func TestGrandchildrenDieWithTheChild(t *testing.T) {
	c, _, dir := shell(t, `trap '' TERM; sleep 1000 & echo $! > $DIR/grandchild; exit 1`)
	ended(t, c)
	data, err := os.ReadFile(filepath.Join(dir, "grandchild"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(data), &pid); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the grandchild is gone", func() bool {
		stat, err := ReadStat(pid)
		return err != nil || stat.State == 'Z'
	})
}

func TestPipesHeldByAStrangerAreAbandoned(t *testing.T) {
	c, _, dir := shell(t, `setsid sh -c 'echo $$ > $DIR/stranger; exec sleep 1000' & while [ ! -s $DIR/stranger ]; do :; done; exit 1`)
	begin := time.Now()
	exit := ended(t, c)
	data, _ := os.ReadFile(filepath.Join(dir, "stranger"))
	var pid int
	if _, err := fmt.Sscan(string(data), &pid); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	if exit.Code != 1 {
		t.Errorf("exit %+v", exit)
	}
	if d := time.Since(begin); d < testPatience || d > 10*time.Second {
		t.Errorf("took %s, patience is %s", d, testPatience)
	}
}

func TestSendToAChildThatDoesNotRead(t *testing.T) {
	c, r, _ := shell(t, `echo '`+loadedLine+`'; exec sleep 1000`)
	eventually(t, "it has loaded", func() bool { return len(r.all()) > 0 })
	large := protocol.Command{Type: protocol.CommandMembers, Members: protocol.Members(strings.Repeat("x", 1<<20))}
	if err := c.sendWithin(large, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	c.Condemn(event.CauseStalled, "does not read")
	if v := ended(t, c).Verdict(); v.Cause != event.CauseStalled {
		t.Errorf("verdict %+v", v)
	}
	if err := c.Send(protocol.Command{Type: protocol.CommandStop}); !errors.Is(err, ErrGone) {
		t.Errorf("send to a dead child: %v", err)
	}
}

func TestStartFailuresLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	process := Process{Path: filepath.Join(dir, "absent"), LogPath: filepath.Join(dir, "log.txt")}
	if _, err := Start(process, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a program: %v", err)
	}
	before := openFiles(t) // after the first start, because the first pipe opens the runtime's poller
	if _, err := Start(process, nil); err == nil {
		t.Error("no error the second time")
	}
	process = Process{
		Path: "/bin/sh", Args: []string{"-c", "echo '" + loadedLine + "'; echo $$ > " + dir + "/pid; exec sleep 1000"},
		LogPath: filepath.Join(dir, "log.txt"), PIDPath: filepath.Join(dir, "absent", PIDFileName), Patience: testPatience,
	}
	if _, err := Start(process, nil); err == nil {
		t.Error("no error for a pid file that can't be written")
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d open files before, %d after", before, after)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "pid")); err == nil {
		var pid int
		if _, err := fmt.Sscan(string(data), &pid); err == nil && syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is left", pid)
		}
	}
}

// groupRuns reports whether a process group has a member that is not a zombie. init may take a while to reap
// orphans.
func groupRuns(t *testing.T, group int) bool {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if stat, err := ReadStat(pid); err == nil && stat.Group == group && stat.State != 'Z' {
			return true
		}
	}
	return false
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
