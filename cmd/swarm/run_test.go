package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/cpu"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Users' own commands under swarm run. The scripts of testdata/training are real, small trainings with a memory
// limit, so that they really run out of memory. Where a test has GPUs, they are fake, and a script prints torch's
// message (--fake-cuda-oom).

// project is a folder with the training scripts.
func project(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "training"))))
	return dir
}

// torchPython is the interpreter with torch, not a wrapper, because scripts import torch.
func torchPython(t testing.TB) string {
	t.Helper()
	usablePython(t)
	found, err := findPython()
	require.NoError(t, err)
	return found.Path
}

// runIn is a swarm run command in a folder.
func runIn(t testing.TB, home, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := swarmCommand(t, home, append([]string{"run"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "OMP_NUM_THREADS=1", "HOME="+home)
	if cpu.X86.HasAVX512F { // an old OpenBLAS doesn't detect newer processors
		cmd.Env = append(cmd.Env, "OPENBLAS_CORETYPE=SkylakeX")
	}
	return cmd
}

// withGPUs gives a command fake GPUs.
func withGPUs(t testing.TB, cmd *exec.Cmd, devices string) *exec.Cmd {
	t.Helper()
	cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(t), "FAKE_NVML="+devices)
	return cmd
}

// jobDocument is the output of swarm status for a job.
func jobDocument(t testing.TB, home, name string) jobstats.Job {
	t.Helper()
	got := within(home, "status", name, "-o", "json")
	require.Zero(t, got.code, got.stderr)
	var j jobstats.Job
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &j))
	return j
}

// Guide 3: a training that runs out of memory continues with half of the batch and the same effective batch. The next
// run starts with the batch that fitted.
func TestRunHalvesTheBatchUntilItFits(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	train := func(flags ...string) outcome {
		cmd := runIn(t, home, dir, append(flags, "--cpu", "only", "--batch-size", "256", "--", torchPython(t), "train.py",
			"training.batch_size={batch_size}", "training.gradient_accumulation_steps={accumulate}")...)
		cmd.Env = append(cmd.Env, "TRAIN_MEMORY_MB=200")
		return finish(t, cmd)
	}
	first := train()
	require.Zero(t, first.code, first.stderr)
	require.Contains(t, first.stdout, "batch_size=128 accumulate=2 effective_batch=256")
	require.Contains(t, first.stderr, "DefaultCPUAllocator", "the command's own words are passed on")
	j := jobDocument(t, home, "train-1")
	require.Equal(t, "done", j.State)
	require.Len(t, j.Attempts, 2)
	require.Equal(t, "host_allocation", j.Attempts[0].Cause)
	require.Equal(t, []int{256, 1, 128, 2}, []int{*j.Attempts[0].BatchSize, *j.Attempts[0].Accumulate, *j.Attempts[1].BatchSize, *j.Attempts[1].Accumulate})
	require.Greater(t, *j.Attempts[0].AskedBytes, int64(1<<20))
	require.Greater(t, *j.PeakHostBytes, int64(50<<20))
	log, err := os.ReadFile(j.Log)
	require.NoError(t, err)
	require.Contains(t, string(log), "DefaultCPUAllocator")
	require.Contains(t, string(log), "effective_batch=256")

	second := train()
	require.Zero(t, second.code, second.stderr)
	require.Len(t, jobDocument(t, home, "train-2").Attempts, 1)
	require.Contains(t, second.stderr, "batch size 128 × 2 = 256")
	require.Contains(t, train("--forget", "--max-retries", "0").stderr, "batch size 256", "what was learnt is left aside")
}

// Guide 2: the values are in files. They are changed while the command runs, and restored afterward.
func TestRunChangesFilesForTheTimeOfTheJob(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	path := filepath.Join(dir, "conf", "config.yaml")
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	got := finish(t, runIn(t, home, dir, "--cpu", "only", "--set", "conf/config.yaml:data_loader.batch_size={batch_size}", "--batch-size", "24",
		"--", "cat", "conf/config.yaml"))
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "batch_size: 24")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))

	// A killed job leaves the file changed. The next job restores it.
	cmd := runIn(t, home, dir, "--cpu", "only", "--set", "conf/config.yaml:data_loader.batch_size={batch_size}", "--batch-size", "24", "--", "sleep", "1000")
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		now, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(now), "batch_size: 24")
	}, patience, pollEvery)
	other := finish(t, runIn(t, home, dir, "--cpu", "only", "--set", "conf/config.yaml:data_loader.batch_size={batch_size}", "--batch-size", "8", "--", "true"))
	require.Equal(t, fail.ExitFailed, other.code)
	require.Contains(t, other.stderr, "sleep-1", "the job that has the file is named")
	waiting := runIn(t, home, dir, "--cpu", "only", "--wait-for-gpu", "10m", "--gpu-check-interval", "50ms",
		"--set", "conf/config.yaml:data_loader.batch_size={batch_size}", "--batch-size", "8", "--", "cat", "conf/config.yaml")
	var seen, said lockedBuffer
	waiting.Stdout, waiting.Stderr = &seen, &said
	require.NoError(t, waiting.Start())
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "waits: ") }, patience, pollEvery)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Zero(t, waitFor(t, waiting), said.String())
	require.Contains(t, seen.String(), "batch_size: 8")
	got = finish(t, runIn(t, home, dir, "--cpu", "only", "--", "true"))
	require.Zero(t, got.code, got.stderr)
	after, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

// Failures other than memory shortages are not retried, and the exit code is the command's. Only a signal to swarm run
// stops a job, so a command that ends with the code of a signal has failed.
func TestRunPassesOnOtherFailures(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	for _, test := range []struct {
		script string
		code   int
	}{
		{"exit 0", 0}, {"exit 7", 7}, {"exit 130", 130}, {"kill -TERM $$", 143}, {"kill -SEGV $$", 139},
		{"echo 'RuntimeError: CUDA error: device-side assert triggered' >&2; exit 1", 1},
	} {
		got := finish(t, runIn(t, home, dir, "--cpu", "only", "--name", "n", "--batch-size", "64", "--env", "B={batch_size}", "--", "sh", "-c", test.script))
		require.Equal(t, test.code, got.code, "%s: %s", test.script, got.stderr)
		job, state := jobDocument(t, home, "n"), store.JobFailed
		if test.code == 0 {
			state = store.JobDone
		}
		require.Equal(t, state, job.State, test.script)
		require.Len(t, job.Attempts, 1, test.script)
	}
}

// Output, arguments and the environment pass through byte for byte.
func TestRunPassesBytesOn(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	var all []byte
	for i := range 1 << 16 {
		all = append(all, byte(i>>8), byte(i))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bytes"), all, 0o600))
	got := finish(t, runIn(t, home, dir, "--cpu", "only", "--", "cat", "bytes"))
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, string(all), got.stdout)

	cmd := runIn(t, home, dir, "--cpu", "only", "--", "cat")
	cmd.Stdin = bytes.NewReader(all)
	got = finish(t, cmd)
	require.Equal(t, string(all), got.stdout)

	got = finish(t, runIn(t, home, dir, "--cpu", "only", "--batch-size", "6", "--accumulate", "2", "--env", "X=a{effective_batch}", "--", "sh", "-c",
		`echo "$X $1 $2 $CUDA_VISIBLE_DEVICES."`, "sh", "{\"lr\": 1}", "{batch_size}/{accumulate}/{device}"))
	require.Equal(t, "a12 {\"lr\": 1} 6/2/cpu .\n", got.stdout, got.stderr)
}

// Guide 3: the job uses the GPU with the most free memory. After a shortage that nothing else fixes, it uses another
// GPU, then the CPU.
func TestRunChoosesAmongGPUs(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	const two = "Tesla T4:15360:9000:proc=none;Tesla T4:15360:12000:proc=none"
	got := finish(t, withGPUs(t, runIn(t, home, dir, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $1", "sh", "{device}:{gpu}"), two))
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, "1 cuda:1\n", got.stdout)
	got = finish(t, withGPUs(t, runIn(t, home, dir, "--gpu", "0", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"), two))
	require.Equal(t, "0\n", got.stdout, got.stderr)

	got = finish(t, withGPUs(t, runIn(t, home, dir, "--min-gpu-memory", "14GB", "--", "true"), two))
	require.Equal(t, fail.ExitNoRoom, got.code)
	require.Contains(t, got.stderr, "14.0 GB")
	require.Contains(t, got.stderr, "Try: --wait-for-gpu")

	const oom = `echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.00 GiB of which 1.00 GiB is free. Process 4242 has 10.00 GiB memory in use. Including non-PyTorch memory, this process has 4.00 GiB memory in use." >&2; exit 1`
	// Meanwhile another process has freed the other GPU.
	gpus := filepath.Join(dir, "gpus")
	require.NoError(t, os.WriteFile(gpus, []byte(strings.ReplaceAll(two, ";", "\n")), 0o600))
	require.NoError(t, os.WriteFile(gpus+".later", []byte(strings.ReplaceAll(strings.ReplaceAll(two, ";", "\n"), ":9000", ":15000")), 0o600))
	cmd := runIn(t, home, dir, "--name", "moves", "--cpu", "fallback", "--max-retries", "9", "--batch-size", "8", "--min-batch-size", "4", "--",
		"sh", "-c", `case $1 in cuda) ln -f gpus.later gpus.now; mv gpus.now gpus; `+oom+`;; esac; echo $1 $2`, "sh", "{device}", "{batch_size}")
	cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(t), "FAKE_NVML_FILE="+gpus)
	got = finish(t, cmd)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "cpu")
	j := jobDocument(t, home, "moves")
	var tried []string
	for _, a := range j.Attempts {
		tried = append(tried, a.GPU)
	}
	const first, other = "GPU-a0000001-0000-4000-8000-000000000001", "GPU-a0000000-0000-4000-8000-000000000000"
	require.Equal(t, []string{first, first, other, ""}, tried, "half of the batch, the other GPU, the CPU as the last resort")
	require.Equal(t, "torch", j.Attempts[0].Cause)
	require.Equal(t, int64(2<<30), *j.Attempts[0].AskedBytes)
}

// Guide 3: a job waits for a GPU. Jobs that have declared their memory share one. A job that doesn't fit waits, and
// starts when another job is killed.
func TestJobsShareAGPU(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	const one = "Tesla T4:15360:15000:proc=none"
	start := func(memory, script string) *exec.Cmd {
		cmd := withGPUs(t, runIn(t, home, dir, "--memory", memory, "--wait-for-gpu", "10m", "--gpu-check-interval", "100ms", "--", "sh", "-c", script), one)
		require.NoError(t, cmd.Start())
		return cmd
	}
	exists := func(name string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	}
	first := start("9GB", "touch first; sleep 1000")
	require.Eventually(t, exists("first"), patience, pollEvery)
	second := start("9GB", "touch second")
	waiting := func() bool { return strings.Contains(within(home, "status").stdout, "waiting") }
	require.Eventually(t, waiting, patience, pollEvery)
	third := start("4GB", "touch third")
	require.Zero(t, waitFor(t, third), "what is left of the GPU is enough for it, and the second is not held up")
	require.True(t, exists("third")())
	require.False(t, exists("second")())
	got := finish(t, withGPUs(t, runIn(t, home, dir, "--memory", "9GB", "--", "true"), one))
	require.Equal(t, fail.ExitNoRoom, got.code, "without --wait-for-gpu it doesn't wait")

	pid := childOf(t, first.Process.Pid)
	require.NoError(t, first.Process.Kill())
	require.NoError(t, syscall.Kill(-pid, syscall.SIGKILL))
	_ = first.Wait()
	require.Zero(t, waitFor(t, second))
	require.True(t, exists("second")())
}

// childOf returns the PID of a process's only child.
func childOf(t testing.TB, pid int) int {
	t.Helper()
	var child int
	require.Eventually(t, func() bool {
		for _, p := range childrenOf(pid) {
			child = p
		}
		return child != 0
	}, patience, pollEvery)
	return child
}

// Ctrl-C reaches the command once and lets it end in order. A command that doesn't end is killed after --grace. No
// process is left.
func TestRunStopsInOrder(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	run := func(signal syscall.Signal, args ...string) (int, string) {
		cmd := runIn(t, home, dir, args...)
		var stderr lockedBuffer
		cmd.Stderr = &stderr
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = stdout.Read(make([]byte, 1)) // it has started
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(signal))
		return waitFor(t, cmd), stderr.String()
	}
	code, said := run(syscall.SIGINT, "--cpu", "only", "--name", "orderly", "--", "sh", "-c", "trap 'echo saved > saved; exit 5' INT; echo x; while :; do sleep 0.05; done")
	require.Equal(t, 130, code, said)
	saved, err := os.ReadFile(filepath.Join(dir, "saved"))
	require.NoError(t, err)
	require.Equal(t, "saved\n", string(saved))
	require.Equal(t, "stopped", jobDocument(t, home, "orderly").State)

	code, said = run(syscall.SIGTERM, "--cpu", "only", "--grace", "200ms", "--name", "deaf", "--", "sh", "-c", "trap '' INT TERM HUP; echo x; while :; do sleep 0.05; done")
	require.Equal(t, 143, code, said)
	require.Contains(t, said, "killing it")
	require.Equal(t, "stopped", jobDocument(t, home, "deaf").State)

	got := finish(t, runIn(t, home, dir, "--cpu", "only", "--detach", "--name", "away", "--", "sh", "-c", "echo x; sleep 1000"))
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "away-1 runs in the background")
	require.Eventually(t, func() bool { return jobDocument(t, home, "away").State == "running" }, patience, pollEvery)
	require.Zero(t, swarm(t, home, "down", "away").code)
	require.Equal(t, "stopped", jobDocument(t, home, "away").State)
}

// Processes that a command leaves in the background don't keep memory: swarm run reports and ends them.
func TestRunEndsWhatACommandLeavesBehind(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	got := finish(t, runIn(t, home, dir, "--cpu", "only", "--grace", "300ms", "--", "sh", "-c", "setsid sh -c 'echo $$ > left; sleep 1000' & while [ ! -s left ]; do sleep 0.01; done"))
	require.Zero(t, got.code, got.stderr)
	text, err := os.ReadFile(filepath.Join(dir, "left"))
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join("/proc", strings.TrimSpace(string(text)), "stat"))
	require.Contains(t, got.stderr, "swarm run: ")
}

// If swarm run itself is killed, swarm down ends its command, even one that ignores SIGTERM.
func TestDownEndsWhatAKilledRunLeft(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	cmd := runIn(t, home, dir, "--cpu", "only", "--name", "n", "--", "sh", "-c", "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done")
	require.NoError(t, cmd.Start())
	var text []byte
	require.Eventually(t, func() bool {
		text, _ = os.ReadFile(filepath.Join(dir, "pid"))
		return bytes.HasSuffix(text, []byte("\n")) && jobDocument(t, home, "n").State == "running"
	}, patience, pollEvery)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	left, err := supervise.Identify(pid)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.True(t, left.Alive())
	require.Equal(t, "lost", jobDocument(t, home, "n").State)
	got := swarm(t, home, "down", "n", "--timeout", "1s")
	require.Zero(t, got.code, got.stderr)
	require.False(t, left.Alive())
}

// Invalid usage is one line and exit code 2.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "a command is missing"},
		{[]string{"--", "no-such-program"}, `"no-such-program" cannot run`},
		{[]string{"--batch-size", "8", "--", "true"}, "the command does not use {batch_size}"},
		{[]string{"--min-batch-size", "8", "--", "true"}, "the command does not use {batch_size}"},
		{[]string{"--", "echo", "{batch_size}"}, "no initial value is given"},
		{[]string{"--batch-size", "8", "--", "echo", "{batchsize}"}, "{batchsize}"},
		{[]string{"--batch-size", "0", "--", "echo", "{batch_size}"}, "batch-size"},
		{[]string{"--batch-size", "2", "--min-batch-size", "4", "--", "echo", "{batch_size}"}, "at most the initial batch size"},
		{[]string{"--accumulate", "2", "--", "true"}, "the command does not use {accumulate}"},
		{[]string{"--set", "conf/config.yaml", "--", "true"}, "FILE:KEY"},
		{[]string{"--set", "conf/config.yaml:data_loader.batchsize={batch_size}", "--", "true"}, "batch_size"},
		{[]string{"--set", "none.yaml:a={batch_size}", "--", "true"}, "none.yaml"},
		{[]string{"--set", "conf/config.yaml:data_loader={batch_size}", "--", "true"}, "data_loader"},
		{[]string{"--env", "={batch_size}", "--", "true"}, "NAME="},
		{[]string{"--cpu", "perhaps", "--", "true"}, "never, fallback or only"},
		{[]string{"--memory", "lots", "--cpu", "only", "--", "true"}, "memory"},
		{[]string{"--max-retries", "-1", "--", "true"}, "max-retries"},
		{[]string{"--wait-for-gpu", "-1s", "--", "true"}, "wait-for-gpu"},
	} {
		got := finish(t, runIn(t, home, dir, test.args...))
		require.Equal(t, fail.ExitUsage, got.code, "%v: %s", test.args, got.stderr)
		require.Contains(t, got.stderr, test.want, test.args)
		require.LessOrEqual(t, strings.Count(got.stderr, "\n"), 2, got.stderr)
		require.Empty(t, got.stdout)
	}
	require.NoDirExists(t, filepath.Join(home, "jobs"), "nothing of it leaves anything")
	got := finish(t, withGPUs(t, runIn(t, home, dir, "--gpu", "7", "--", "true"), "Tesla T4:15360:15000"))
	require.Equal(t, fail.ExitUsage, got.code, got.stderr)
	got = finish(t, runIn(t, home, dir, "--", "true"))
	require.Equal(t, fail.ExitNoRoom, got.code)
	require.Contains(t, got.stderr, "--cpu fallback")
}

// A job gives up when it has waited too long, and reports what was missing.
func TestRunGivesUpWaiting(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	file := filepath.Join(dir, "gpus")
	require.NoError(t, os.WriteFile(file, []byte("Tesla T4:15360:2000:proc=none\n"), 0o600))
	start := func(limit string) *exec.Cmd {
		cmd := runIn(t, home, dir, "--wait-for-gpu", limit, "--gpu-check-interval", "20ms", "--", "true")
		cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(t), "FAKE_NVML_FILE="+file)
		return cmd
	}
	got := finish(t, start("100ms"))
	require.Equal(t, fail.ExitNoRoom, got.code, got.stderr)
	require.Contains(t, got.stderr, "2.1 GB")
	waiting := start("10m")
	require.NoError(t, waiting.Start())
	require.Eventually(t, func() bool { return strings.Contains(within(home, "status").stdout, "waiting") }, patience, pollEvery)
	require.NoError(t, os.WriteFile(file+".new", []byte("Tesla T4:15360:14000:proc=none\n"), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
	require.Zero(t, waitFor(t, waiting), "somebody else's memory has become free")
}

// BenchmarkRun compares a command that ends at once under swarm run with the command alone.
func BenchmarkRun(b *testing.B) {
	home, dir := b.TempDir(), b.TempDir()
	var alone, with time.Duration
	for b.Loop() {
		began := time.Now()
		require.NoError(b, exec.Command("true").Run())
		alone += time.Since(began)
		cmd := runIn(b, home, dir, "--cpu", "only", "--", "true")
		cmd.Path = stormProgram() // the build for users: a test binary starts slowly
		began = time.Now()
		require.Zero(b, finish(b, cmd).code)
		with += time.Since(began)
	}
	b.ReportMetric(float64((with-alone).Milliseconds())/float64(b.N), "ms-added/op")
}

// BenchmarkTune compares a recommendation for the GPU of this host with the program's bare start.
func BenchmarkTune(b *testing.B) {
	home, library := b.TempDir(), fakeNVML(b)
	took := func(args ...string) time.Duration {
		cmd := withGPUs(b, swarmCommand(b, home, args...), "Quadro RTX 6000:24576:24000")
		cmd.Path, cmd.Env = stormProgram(), append(cmd.Env, "SWARM_NVML_LIBRARY="+library)
		began := time.Now()
		got := finish(b, cmd)
		require.Zero(b, got.code, got.stderr)
		return time.Since(began)
	}
	var bare, with time.Duration
	for b.Loop() {
		bare += took("--version")
		with += took("tune", "--auto", "--workload", "naics-embedder")
	}
	b.ReportMetric(float64(with.Milliseconds())/float64(b.N), "ms/op")
	b.ReportMetric(float64(bare.Milliseconds())/float64(b.N), "ms-start/op")
}
