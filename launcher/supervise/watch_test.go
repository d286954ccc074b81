package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/internal/hostmem"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// watched starts a script with a short StopLimit.
func watched(t *testing.T, script string) (*Child, *recorder) {
	t.Helper()
	var r recorder
	c, err := Start(Process{
		Path: "/bin/sh", Args: []string{"-c", script}, LogPath: filepath.Join(t.TempDir(), "log.txt"), Patience: testPatience, StopLimit: 100 * time.Millisecond,
	}, r.record)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Condemn(event.CauseStopped, "test over")
		<-c.Done()
	})
	return c, &r
}

func TestStoppedProcessIsContinued(t *testing.T) {
	c, r := watched(t, `echo '`+loadedLine+`'; kill -STOP $$; echo '{"type":"state","state":"done"}'`)
	if v := ended(t, c).Verdict(); v.State != event.StateDone {
		t.Errorf("verdict %+v", v)
	}
	var warnings []string
	for _, e := range r.all() {
		if e.Type == event.TypeWarning && e.Time > 0 {
			warnings = append(warnings, e.Message)
		}
	}
	if want := "process " + strconv.Itoa(c.PID()) + " was suspended for 100ms; resumed it"; len(warnings) != 1 || warnings[0] != want {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
}

func TestProcessThatStaysStoppedIsCondemned(t *testing.T) {
	c, _ := watched(t, `while :; do kill -STOP $$; done`)
	select {
	case <-c.Condemned():
	case <-time.After(20 * time.Second):
		t.Fatal("not condemned")
	}
	if v := ended(t, c).Verdict(); v.Cause != event.CauseStalled || !v.Heals || !strings.Contains(v.Message, "suspended") {
		t.Errorf("verdict %+v", v)
	}
}

func TestKillMeter(t *testing.T) {
	count := int64(7)
	k := &KillMeter{read: func(time.Duration) int64 { return count }}
	k.Look()
	if n := k.Rise(); n != 0 {
		t.Errorf("rise %d before any kill", n)
	}
	count = 9
	for range remembered - 1 {
		if k.Look(); k.Rise() != 2 {
			t.Fatalf("rise %d, want 2", k.Rise())
		}
	}
	if k.Look(); k.Rise() != 0 {
		t.Errorf("rise %d for a kill long ago", k.Rise())
	}
	if count = -1; k.Rise() != -1 {
		t.Error("known where the kernel does not tell")
	}
}

// If the kernel kills a process that exceeds its control group's memory, the cause is lack of host memory. A plain
// kill -9 has another cause.
func TestKernelsKillIsToldFromSomebodys(t *testing.T) {
	if hostmem.OOMKills() < 0 {
		t.Skip("this kernel doesn't count its kills")
	}
	group := memoryGroup(t, 24<<20)
	// tail keeps the endless line in memory
	c, _ := watched(t, `echo $$ >`+group+`/cgroup.procs; exec tail /dev/zero`)
	if v := ended(t, c).Verdict(); v.Cause != event.CauseHostOutOfMemory || !strings.Contains(v.Message, "by the kernel") {
		t.Errorf("verdict %+v", v)
	}
	for range 20 { // other processes on this machine may run out of memory meanwhile
		before := hostmem.OOMKills()
		c, r := watched(t, `echo '`+loadedLine+`'; exec sleep 1000`)
		eventually(t, "the looks before are forgotten", func() bool { return len(r.all()) > 0 })
		if err := syscall.Kill(c.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		exit := ended(t, c)
		if hostmem.OOMKills() != before {
			continue
		}
		if v := exit.Verdict(); v.Cause != event.CauseUnknown || !strings.Contains(v.Message, "nor by the kernel's out-of-memory killer") {
			t.Errorf("verdict %+v", v)
		}
		return
	}
	t.Skip("the kernel kills all the time")
}

// memoryGroup creates a control group with a memory limit in bytes. It skips the test if that is not possible.
func memoryGroup(t *testing.T, limit int64) string {
	t.Helper()
	for _, kind := range []struct{ parent, file string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"},
	} {
		dir, err := os.MkdirTemp(kind.parent, "swarm-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { eventually(t, "the control group is empty", func() bool { return os.Remove(dir) == nil }) })
		// the kernel creates it in a control group's folder
		file, err := os.OpenFile(filepath.Join(dir, kind.file), os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		_, err = file.WriteString(strconv.FormatInt(limit, 10))
		if err := errors.Join(err, file.Close()); err == nil {
			return dir
		}
	}
	t.Skip("no memory control group can be made")
	return ""
}
