package targets

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds every wait for another process.
const patience = 2 * time.Minute

// stub is a fake swarm that records its arguments, each followed by a NUL, and counts its starts with this home. It
// exits with the codes in the file codes in its folder, one after another. After the last code it runs until
// SIGTERM, then saves and exits with 143.
const stub = `#!/bin/bash
here=$(dirname "$0") home=$2
printf '%s\0' "$@" >"$here/args.new" && mv "$here/args.new" "$here/args"
echo x >>"$home/starts"
mkdir -p "$home/runs/r/outbox"
read -r code <"$here/codes" && sed -i 1d "$here/codes" && exit "$code"
trap 'echo saved >>"$home/saved"; exit 143' TERM
touch "$here/running.${home##*/}"
while :; do sleep 0.05; done
`

// slurmJob writes a job with two workers that run the stub, in a folder whose name needs quoting.
func slurmJob(t *testing.T, codes string, change func(*Spec)) Spec {
	t.Helper()
	dir := t.TempDir()
	s := example(Slurm)
	s.Workers, s.CPUs, s.Memory, s.GPUs, s.GPUType, s.Partition, s.Account = 2, 1, 1<<30, 0, "", "", ""
	s.Dir, s.Scratch, s.Program = filepath.Join(dir, "it is here"), filepath.Join(dir, "scratch $x"), filepath.Join(dir, "a swarm")
	if change != nil {
		change(&s)
	}
	require.NoError(t, os.Mkdir(s.Scratch, 0o755))
	require.NoError(t, os.WriteFile(s.Program, []byte(stub), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "codes"), []byte(codes), 0o644))
	write(t, s)
	return s
}

// batch returns the command that slurmd would start for worker 1. Its scontrol records its arguments, and its sleep
// returns at once.
func batch(t *testing.T, s Spec, restarts string, args ...string) *exec.Cmd {
	t.Helper()
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "scontrol"), []byte("#!/bin/bash\necho \"$@\" >>\"$STUBS/requeued\"\n"), 0o755))
	cmd := exec.Command("bash", append([]string{filepath.Join(s.Dir, "workers.slurm")}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "STUBS=" + filepath.Dir(s.Program), "SLURM_ARRAY_TASK_ID=1", "SLURM_ARRAY_JOB_ID=70",
		"SLURM_JOB_ID=72", "SLURM_RESTART_COUNT=" + restarts}
	cmd.Stderr, cmd.WaitDelay = new(strings.Builder), patience
	return cmd
}

// beside returns the text of a file that the stubs wrote, or "" if there is none.
func beside(s Spec, name string) string {
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(s.Program), name))
	return string(text)
}

// kept returns the text of a file in worker 1's saved home.
func kept(s Spec, name string) string {
	text, _ := os.ReadFile(filepath.Join(s.Dir, "homes", "swarm-1", name))
	return string(text)
}

// running waits until the stub is running after that number of restarts.
func running(t *testing.T, s Spec, restarts string) {
	t.Helper()
	at := filepath.Join(filepath.Dir(s.Program), "running.swarm-*-1-72-"+restarts+"-*")
	require.Eventually(t, func() bool { found, _ := filepath.Glob(at); return len(found) == 1 }, patience, 10*time.Millisecond)
}

func TestSlurmHandsOnArgumentsAsTheyWere(t *testing.T) {
	hostile := hostileWords(t)
	s := slurmJob(t, "0\n", func(s *Spec) { s.Args = hostile })
	cmd := batch(t, s, "0", "--model", "two words")
	require.NoError(t, cmd.Run(), cmd.Stderr)
	args := strings.Split(strings.TrimSuffix(beside(s, "args"), "\x00"), "\x00")
	require.True(t, strings.HasPrefix(args[1], s.Scratch+"/"), args[1])
	want := append([]string{"--home", args[1], "join", "--url-file", s.Dir + "/invitation", "--name", "swarm-1",
		"--nodes", "auto", "--device", "cpu", "--wait", "1h"}, hostile...)
	require.Equal(t, append(want, "--model", "two words"), args)
	require.NoFileExists(t, filepath.Join(cmd.Dir, "pwned"))
	require.Empty(t, beside(s, "requeued"))
}

// Other users can write to a scratch folder such as /tmp. If they create a folder at the path of the job's home,
// the job neither uses nor removes it.
func TestASlurmHomeIsNotWhereAnotherUserPutsOne(t *testing.T) {
	s := slurmJob(t, "0\n", nil)
	planted := filepath.Join(s.Scratch, fmt.Sprintf("swarm-%d-swarm-1-72-0", os.Getuid()))
	require.NoError(t, os.Mkdir(planted, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(planted, "theirs"), nil, 0o644))
	cmd := batch(t, s, "0")
	require.NoError(t, cmd.Run(), cmd.Stderr)
	home := strings.Split(beside(s, "args"), "\x00")[1]
	require.NotEqual(t, planted, home)
	require.Equal(t, s.Scratch, filepath.Dir(home))
	found, err := os.ReadDir(planted)
	require.NoError(t, err)
	require.Len(t, found, 1, "what is there stays as it is")
}

// Near the time limit the worker stops in order, and its home is kept. Only its own task is queued again. It
// continues from the kept home with a new outbox, and leaves nothing on the machine's disk.
func TestSlurmTimeLimitKeepsTheHomeAndQueuesTheTaskAgain(t *testing.T) {
	s := slurmJob(t, "", nil)
	for restarts, count := range []string{"0", "1"} {
		cmd := batch(t, s, count)
		require.NoError(t, cmd.Start())
		running(t, s, count)
		require.NoError(t, cmd.Process.Signal(syscall.SIGUSR1))
		require.NoError(t, cmd.Wait(), cmd.Stderr)
		require.Equal(t, strings.Repeat("requeue 70_1\n", restarts+1), beside(s, "requeued"))
		require.Equal(t, strings.Repeat("x\n", restarts+1), kept(s, "starts"))
		require.Equal(t, strings.Repeat("saved\n", restarts+1), kept(s, "saved"))
		require.DirExists(t, filepath.Join(s.Dir, "homes", "swarm-1", "runs", "r", "outbox"), "an orderly stop keeps what was not delivered yet")
		left, err := os.ReadDir(s.Scratch)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	// After a kill together with its machine, the worker continues from the saved home. It does not use the saved
	// outbox, because the outbox continued elsewhere meanwhile.
	cmd := batch(t, s, "2")
	require.NoError(t, cmd.Start())
	running(t, s, "2")
	require.NoDirExists(t, filepath.Join(s.Dir, "homes", "swarm-1", "runs", "r", "outbox"))
	require.NoError(t, cmd.Process.Kill())
	for _, pid := range children(t, s.Program) {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	require.Error(t, cmd.Wait())
	require.Equal(t, "x\nx\n", kept(s, "starts"))
}

// children returns the running processes of a program.
func children(t *testing.T, program string) (pids []int) {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range entries {
		line, _ := os.ReadFile(path)
		if strings.Contains(string(line), program+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// scancel and preemption send TERM: the worker stops in order. Slurm decides whether to queue the task again.
func TestSlurmCancelStopsInOrderAndQueuesNothing(t *testing.T) {
	s := slurmJob(t, "", nil)
	cmd := batch(t, s, "0")
	require.NoError(t, cmd.Start())
	running(t, s, "0")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Equal(t, 143, cmd.ProcessState.ExitCode())
	require.Equal(t, "saved\n", kept(s, "saved"))
	require.Empty(t, beside(s, "requeued"))
}

// The job retries failures that may be temporary, with the same home, and does not retry permanent ones.
func TestSlurmRestartsWhatMayPass(t *testing.T) {
	for codes, want := range map[string]struct{ code, starts int }{
		"1\n3\n0\n":          {0, 3},
		"2\n0\n":             {2, 1},
		"4\n0\n":             {4, 1},
		"1\n1\n1\n1\n1\n0\n": {1, 5},
		"137\n0\n":           {0, 2},
	} {
		s := slurmJob(t, codes, nil)
		cmd := batch(t, s, "0")
		// No sleep between attempts.
		require.NoError(t, os.WriteFile(filepath.Join(strings.SplitN(cmd.Env[0][len("PATH="):], ":", 2)[0], "sleep"), []byte("#!/bin/bash\n"), 0o755))
		_ = cmd.Run()
		require.Equal(t, want.code, cmd.ProcessState.ExitCode(), codes)
		require.Equal(t, strings.Repeat("x\n", want.starts), kept(s, "starts"), codes)
		require.Empty(t, beside(s, "requeued"), codes)
	}
}

func TestSlurmTwoJobsDontRunOneWorker(t *testing.T) {
	s := slurmJob(t, "", nil)
	first := batch(t, s, "0")
	require.NoError(t, first.Start())
	running(t, s, "0")
	second := batch(t, s, "9")
	require.Error(t, second.Run())
	require.Equal(t, 2, second.ProcessState.ExitCode())
	require.Contains(t, second.Stderr.(*strings.Builder).String(), "another job already runs this worker")
	require.NoError(t, first.Process.Signal(syscall.SIGTERM))
	require.Error(t, first.Wait())
	require.Equal(t, "x\n", kept(s, "starts"))
}

func TestScriptsPassBashAndShellcheck(t *testing.T) {
	for _, c := range []struct{ target, name string }{{Slurm, "workers.slurm"}, {SkyPilot, "launch.sh"}} {
		s := example(c.target)
		s.Dir = t.TempDir()
		if c.target == Slurm {
			s.Args = hostileWords(t)
		}
		path := filepath.Join(write(t, s), c.name)
		out, err := exec.Command("bash", "-n", path).CombinedOutput()
		require.NoError(t, err, string(out))
		if _, err := exec.LookPath("shellcheck"); err != nil {
			t.Log("no shellcheck here: bash -n alone")
			continue
		}
		// Remarks of shellcheck below a warning, such as on a quoted $, are about intended code.
		out, err = exec.Command("shellcheck", "--severity=warning", path).CombinedOutput()
		require.NoError(t, err, string(out))
	}
}
