package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// household is a child like a node, with an engine in a group of its own and a rank of the engine in the engine's
// group.
type household struct {
	child        *Child
	dir          string
	engine, rank int
	mu           sync.Mutex
	announced    []int
}

// newHousehold starts a household. Engine and rank ignore the end of their stdin. The child does not.
func newHousehold(t *testing.T, stopLimit time.Duration) *household {
	t.Helper()
	h := &household{dir: t.TempDir()}
	c, err := Start(Process{
		Path: "/bin/sh", Args: []string{"-c", `setsid sh -c 'sleep 1000 & echo $! >$DIR/rank; while :; do wait; done' & echo $! >$DIR/engine; cat >/dev/null`},
		Env: append(os.Environ(), "DIR="+h.dir), LogPath: filepath.Join(h.dir, "log.txt"), PIDPath: filepath.Join(h.dir, PIDFileName),
		Patience: testPatience, StopLimit: stopLimit,
		BeforeKill: func(pids []int) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.announced = append(h.announced, pids...)
		},
	}, func(event.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	h.child = c
	for name, pid := range map[string]*int{"engine": &h.engine, "rank": &h.rank} {
		eventually(t, "there is a pid of the "+name, func() bool {
			data, _ := os.ReadFile(filepath.Join(h.dir, name))
			_, err := fmt.Sscan(string(data), pid)
			return err == nil && strings.HasSuffix(string(data), "\n")
		})
	}
	t.Cleanup(func() {
		c.Condemn(event.CauseStopped, "test over")
		<-c.Done()
		for limit := time.Now().Add(time.Second); groupRuns(t, h.engine); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) { // a test that killed the child itself did not wait
				syscall.Kill(-h.engine, syscall.SIGKILL)
				t.Error("the engine or its rank is left")
				break
			}
		}
	})
	return h
}

func (h *household) signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// known waits until the child's watch has found a process.
func (h *household) known(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "the process is known", func() bool {
		f, err := readPIDFile(filepath.Join(h.dir, PIDFileName))
		return err == nil && slices.ContainsFunc(f.Also, func(id Identity) bool { return id.PID == pid })
	})
}

// However a node is killed, its engine must not stay on the GPU, even if suspended.
func TestEngineDoesNotOutliveItsNode(t *testing.T) {
	tests := map[string]func(*testing.T, *household){
		"stopped": func(t *testing.T, h *household) { h.signal(t, -h.engine, syscall.SIGSTOP) },
		"running": func(*testing.T, *household) {},
	}
	for name, before := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHousehold(t, time.Hour)
			if err := h.child.Adopt(h.engine); err != nil {
				t.Fatal(err)
			}
			before(t, h)
			h.signal(t, h.child.PID(), syscall.SIGKILL)
			begin := time.Now()
			ended(t, h.child)
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("took %s", d)
			}
			if groupRuns(t, h.engine) {
				t.Error("the engine's group still runs")
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if !slices.Contains(h.announced, h.engine) || !slices.Contains(h.announced, h.rank) {
				t.Errorf("BeforeKill was told of %v, not of %d and %d", h.announced, h.engine, h.rank)
			}
			if _, err := os.Stat(filepath.Join(h.dir, PIDFileName)); err == nil {
				t.Error("pid file left")
			}
		})
	}
}

// A node that is killed while its engine is loading has not reported the engine.
func TestWatchFindsTheEngineByItself(t *testing.T) {
	h := newHousehold(t, 50*time.Millisecond)
	h.known(t, h.engine)
	h.signal(t, -h.engine, syscall.SIGSTOP)
	h.signal(t, h.child.PID(), syscall.SIGKILL)
	ended(t, h.child)
	if groupRuns(t, h.engine) {
		t.Error("the engine's group still runs")
	}
}

// A killed engine may leave a rank behind, whose group has lost its leader.
func TestRankOfADeadEngineDoesNotStay(t *testing.T) {
	h := newHousehold(t, time.Hour)
	if err := h.child.Adopt(h.engine); err != nil {
		t.Fatal(err)
	}
	h.signal(t, h.rank, syscall.SIGSTOP)
	h.signal(t, h.engine, syscall.SIGKILL)
	h.signal(t, h.child.PID(), syscall.SIGKILL)
	ended(t, h.child)
	if groupRuns(t, h.engine) {
		t.Error("the rank still runs")
	}
}

// In the pid file, a restarted engine replaces the previous one.
func TestPIDFileForgetsTheDead(t *testing.T) {
	h := newHousehold(t, 50*time.Millisecond)
	if err := h.child.Adopt(h.engine); err != nil {
		t.Fatal(err)
	}
	h.known(t, h.rank)
	h.signal(t, h.rank, syscall.SIGKILL)
	eventually(t, "the rank is gone", func() bool {
		stat, err := ReadStat(h.rank)
		return err != nil || stat.State == 'Z'
	})
	if err := h.child.Adopt(h.engine); err != nil {
		t.Fatal(err)
	}
	f, err := readPIDFile(filepath.Join(h.dir, PIDFileName))
	if err != nil || slices.ContainsFunc(f.Also, func(id Identity) bool { return id.PID == h.rank }) {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestStrangersAreNotAdopted(t *testing.T) {
	h := newHousehold(t, time.Hour)
	stranger := exec.Command("/bin/sleep", "1000")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stranger.Process.Kill()
		stranger.Wait()
	}()
	for _, pid := range []int{stranger.Process.Pid, os.Getpid(), 1, 0, -1, 1 << 30} {
		if err := h.child.Adopt(pid); err == nil {
			t.Errorf("%d was adopted", pid)
		}
	}
	h.signal(t, h.child.PID(), syscall.SIGKILL)
	syscall.Kill(-h.engine, syscall.SIGKILL)
	ended(t, h.child)
	if stat, err := ReadStat(stranger.Process.Pid); err != nil || stat.State == 'Z' {
		t.Errorf("the stranger is gone: %v", err)
	}
}

// Surviving detached processes stay in the pid file for a later sweep.
func TestSurvivorsStayInThePIDFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, PIDFileName)
	survivor := exec.Command("/bin/sleep", "1000")
	survivor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := survivor.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		survivor.Wait()
		close(gone)
	}()
	id, err := Identify(survivor.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	dead := id
	dead.Start++
	if err := (pidFile{Process: dead, Parent: dead, Also: []Identity{dead, id}}).write(path); err != nil {
		t.Fatal(err)
	}
	var d detached
	if err := d.begin(path, os.Getpid()); err != nil {
		t.Fatal(err)
	}
	d.forget()
	f, err := readPIDFile(path)
	if err != nil || !slices.Equal(f.Also, []Identity{id}) {
		t.Fatalf("%+v, %v", f, err)
	}
	if left := d.end(func() {}); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	<-gone
	d.forget()
	if _, err := os.Stat(path); err == nil {
		t.Error("pid file left")
	}
}

// A look is skipped only if no process has started since all detached processes were known. A process in the child's
// own group may leave the group later without starting anything.
func TestALookIsSkippedOnlyWhereAllAreKnown(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `(read -r go <"$0"; exec setsid sleep 1000) & cat >/dev/null; wait`, fifo)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	pid := cmd.Process.Pid
	var late int
	eventually(t, "there are two children", func() bool {
		started := children(pid)
		if len(started) == 2 {
			late = slices.Min(started)
		}
		return late != 0
	})
	defer syscall.Kill(late, syscall.SIGKILL)
	var d detached
	if err := d.begin(filepath.Join(dir, PIDFileName), pid); err != nil {
		t.Fatal(err)
	}
	is := func(what string, want bool) {
		t.Helper()
		id, err := Identify(late)
		if err != nil || d.has(id) != want {
			t.Fatalf("%s: known %t, want %t (%v)", what, !want, want, err)
		}
	}
	const newest = 7
	d.lookAt(pid, newest)
	is("in the child's group", false)
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has left the group", func() bool {
		stat, err := ReadStat(late)
		return err == nil && stat.Group == late
	})
	d.lookAt(pid, newest)
	is("it left", true)

	stdin.Close() // cat ends: all remaining processes are known
	eventually(t, "one child is left", func() bool { return len(children(pid)) <= 1 })
	d.lookAt(pid, newest)
	d.record.Also = nil
	d.lookAt(pid, newest)
	is("nothing was started since", false)
	d.lookAt(pid, newest+1)
	is("something was started since", true)
}
