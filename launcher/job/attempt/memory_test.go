package attempt_test

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

	"github.com/sapo-swarm/swarm/launcher/job/attempt"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

const python = "/usr/bin/python3"

func needPython(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(python); err != nil {
		t.Skip("no " + python)
	}
}

// limited makes a Python program limit its address space to 512 MiB.
const limited = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))\n"

func TestPythonThatRunsOutOfMemory(t *testing.T) {
	needPython(t)
	t.Parallel()
	for _, c := range []struct {
		name, script string
		short        bool
		code         int
		fault        string
	}{
		{"dies of it", "bytearray(1 << 30)", true, 1, ""},
		{"deals with it", "try:\n    bytearray(1 << 30)\nexcept MemoryError as e:\n    print('MemoryError: skipped a batch')", false, 0, ""},
		{"fails of something else later", "import traceback, sys\ntry:\n    bytearray(1 << 30)\nexcept MemoryError:\n    traceback.print_exc()\n" +
			"for i in range(9000): print('step', i, file=sys.stderr)\nassert 1 == 2, 'labels'", false, 1, "AssertionError: labels"},
		{"raises it anew", "try:\n    bytearray(1 << 30)\nexcept MemoryError as e:\n    raise RuntimeError('training failed') from e", true, 1, ""},
		{"goes on for long and exits", "import traceback, sys\ntry:\n    bytearray(1 << 30)\nexcept MemoryError:\n    traceback.print_exc()\n" +
			"for i in range(9000): print('step', i, file=sys.stderr)\nsys.exit(4)", false, 4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := begin(t, nil, python, "-c", limited+c.script).Wait()
			if out.ExitCode != c.code || (out.Shortage != nil) != c.short {
				t.Fatalf("%+v; shortage %+v", out, out.Shortage)
			}
			if c.short && (out.Shortage.Kind != shortage.HostAllocation || !out.Shortage.OnHost || out.Fault != nil) {
				t.Errorf("%+v, fault %+v", out.Shortage, out.Fault)
			}
			if c.fault != "" && (out.Fault == nil || !strings.Contains(out.Fault.Line, c.fault)) {
				t.Errorf("fault %+v, want %s", out.Fault, c.fault)
			}
		})
	}
}

func TestTorchThatRunsOutOfHostMemory(t *testing.T) {
	needPython(t)
	t.Parallel()
	if err := exec.Command(python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)").Run(); err != nil {
		t.Skip("no torch for " + python)
	}
	script := "import resource, torch\nused = int(open('/proc/self/statm').read().split()[0]) * 4096\n" +
		"resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)\ntorch.zeros(1 << 30)"
	out := begin(t, func(s *attempt.Spec) { s.Env = append(os.Environ(), "OPENBLAS_CORETYPE=SkylakeX", "OMP_NUM_THREADS=1") }, python, "-c", script).Wait()
	if r := out.Shortage; r == nil || r.Kind != shortage.HostAllocation || r.Asked != 4<<30 {
		t.Errorf("%+v; shortage %+v", out, r)
	}
}

// inGroup returns a shell line that moves the shell into a new memory cgroup of 64 MiB.
func inGroup(t *testing.T) string {
	t.Helper()
	for _, layout := range []struct{ root, limit string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"},
	} {
		dir := filepath.Join(layout.root, fmt.Sprintf("swarm-command-test-%d", os.Getpid()))
		if _, err := os.Stat(filepath.Join(layout.root, "cgroup.procs")); err != nil || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			eventually(t, "the cgroup is gone", func() bool { return os.Remove(dir) == nil || os.IsNotExist(os.Remove(dir)) })
		})
		if os.WriteFile(filepath.Join(dir, layout.limit), []byte("67108864"), 0o600) == nil {
			return "echo $$ > " + dir + "/cgroup.procs"
		}
	}
	t.Skip("no memory cgroup can be made here")
	return ""
}

func TestTheKernelsKillerIsRecognised(t *testing.T) {
	needPython(t)
	into := inGroup(t)
	for name, script := range map[string]string{
		"the command":     into + " && exec " + python + " -c 'bytearray(500 << 20)'",
		"its child":       into + "; " + python + " -c 'bytearray(500 << 20)'; exit $?",
		"of a DataLoader": into + "; " + python + " -c 'bytearray(500 << 20)'; echo 'RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.' >&2; exit 1",
	} {
		out := shell(t, script).Wait()
		if out.Status() == 0 || !out.OOMKilled || out.Shortage == nil || out.Shortage.Kind != shortage.HostKilled || !out.Shortage.OnHost {
			t.Errorf("%s: %+v, shortage %+v, fault %+v", name, out, out.Shortage, out.Fault)
		}
	}
	if out := shell(t, "sleep 0.1; kill -KILL $$").Wait(); out.Signal != syscall.SIGKILL {
		t.Errorf("%+v", out)
	}
}

func TestTheTreesMemoryIsSampled(t *testing.T) {
	needPython(t)
	t.Parallel()
	// 4 children share their parent's 100 MiB.
	script := `import os, time, sys
block = bytearray(100 << 20)
for i in range(100):
    block[i << 20:(i + 1) << 20] = os.urandom(1 << 20)
for _ in range(4):
    if os.fork() == 0:
        time.sleep(1000)
print(os.getpid(), flush=True)
sys.stdin.readline()
os.killpg(0, 15)`
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	var mu sync.Mutex
	var last attempt.Usage
	asked := map[int]bool{}
	r := begin(t, func(s *attempt.Spec) {
		s.Stdin, s.Interval = in, 10*time.Millisecond
		s.Sampled = func(u attempt.Usage) { mu.Lock(); defer mu.Unlock(); last = u }
		s.GPUMemory = func(pids []int) (int64, bool) {
			for _, pid := range pids {
				asked[pid] = true
			}
			return int64(len(pids)) << 30, len(pids) == 5
		}
	}, python, "-c", script)
	r.said(t, "\n")
	const block = 100 << 20
	eventually(t, "all five share the block", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return last.Processes == 5 && last.Proportional && last.HostBytes > block && last.HostBytes < 2*block && last.GPUBytes == 5<<30
	})
	feed.WriteString("\n")
	out := r.Wait()
	if p := out.Peak; p.Processes != 5 || p.HostBytes < block || p.HostBytes > 2*block || p.GPUBytes != 5<<30 || !asked[r.PID()] {
		t.Errorf("%+v, asked about %v", out, asked)
	}
}

func TestAShortCommandsMemoryIsKnownToo(t *testing.T) {
	needPython(t)
	t.Parallel()
	out := begin(t, func(s *attempt.Spec) { s.Interval = time.Hour }, python, "-c", "bytearray(b'x' * (600 << 20))").Wait()
	if out.Peak.HostBytes < 600<<20 || out.Peak.HostBytes > 2000<<20 {
		t.Errorf("%+v", out)
	}
}

func TestSamplesNameNobodyElse(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []int
	r := begin(t, func(s *attempt.Spec) {
		s.GPUMemory = func(pids []int) (int64, bool) {
			mu.Lock()
			defer mu.Unlock()
			seen = slices.Clone(pids)
			return 0, true
		}
	}, "/bin/sh", "-c", "sleep 1000 & echo $!; echo $$; wait")
	want := r.numbers(t, 2)
	slices.Sort(want)
	eventually(t, "both are sampled", func() bool { mu.Lock(); defer mu.Unlock(); return slices.Equal(seen, want) })
	if err := r.Kill(); err != nil {
		t.Error(err)
	}
}
