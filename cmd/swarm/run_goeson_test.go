package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Problems around a command of swarm run. They must neither end the command nor change its exit code.

// shortOfMemory prints torch's out-of-memory message.
const shortOfMemory = `echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.00 GiB of which 1.00 GiB is free." >&2; exit 1`

// A larger batch than the one that fitted is tried unless it is known to run out of memory. A batch that ran out is
// not tried again.
func TestRunTriesALargerBatchThatNeverRanOut(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	train := func(batch string) []int {
		got := finish(t, runIn(t, home, dir, "--cpu", "only", "--name", "n", "--batch-size", batch, "--", "sh", "-c",
			`if [ $1 -gt 16 ]; then `+shortOfMemory+`; fi`, "sh", "{batch_size}"))
		require.Zero(t, got.code, got.stderr)
		var batches []int
		for _, a := range jobDocument(t, home, "n").Attempts {
			batches = append(batches, *a.BatchSize)
		}
		return batches
	}
	require.Equal(t, []int{8}, train("8"))
	require.Equal(t, []int{16}, train("16"))
	require.Equal(t, []int{32, 16}, train("32"))
	require.Equal(t, []int{16}, train("32"))
	require.Equal(t, []int{16}, train("64"))
	require.Equal(t, []int{12}, train("12"))
}

// If a GPU falls off the bus between two attempts, the next attempt still runs, and the command notices.
func TestALostGPUEndsNoJobBetweenAttempts(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	gpus := filepath.Join(dir, "gpus")
	require.NoError(t, os.WriteFile(gpus, []byte("Tesla T4:15360:15000:proc=none\n"), 0o600))
	require.NoError(t, os.WriteFile(gpus+".later", []byte("Tesla T4:15360:15000:lost\n"), 0o600))
	cmd := runIn(t, home, dir, "--batch-size", "8", "--", "sh", "-c", `case $1 in 8) mv gpus.later gpus; `+shortOfMemory+`;; esac`, "sh", "{batch_size}")
	cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(t), "FAKE_NVML_FILE="+gpus)
	got := finish(t, cmd)
	require.Zero(t, got.code, got.stderr)
	require.Len(t, jobDocument(t, home, "sh-1").Attempts, 2)
}

// A GPU with more free memory that another job has claimed is unavailable: the next remedy is used.
func TestAClaimedGPUIsPassedOver(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	const two = "Tesla T4:15360:15000:proc=none;Tesla T4:15360:9000:proc=none"
	holder := withGPUs(t, runIn(t, home, dir, "--", "sh", "-c", "touch holds; sleep 1000"), two)
	require.NoError(t, holder.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "holds")); return err == nil }, patience, pollEvery)
	got := finish(t, withGPUs(t, runIn(t, home, dir, "--name", "moves", "--cpu", "fallback", "--", "sh", "-c",
		`case $1 in cuda:1) `+shortOfMemory+`;; esac; echo on $1`, "sh", "{device}:{gpu}"), two))
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, "on cpu:\n", got.stdout)
	require.Contains(t, got.stderr, "not on GPU GPU-a0000000-0000-4000-8000-000000000000")
	require.Zero(t, swarm(t, home, "down", "sh-1", "--now").code)
	_ = waitFor(t, holder)
}

// If the user edits a file while a job has changed it, the edit stays, and the command's exit code is passed on.
func TestRunPassesTheExitCodeOnWhereAFileCannotBePutBack(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	path := filepath.Join(dir, "conf", "config.yaml")
	for _, code := range []string{"0", "7"} {
		got := finish(t, runIn(t, home, dir, "--cpu", "only", "--set", "conf/config.yaml:data_loader.batch_size={batch_size}", "--batch-size", "24", "--",
			"sh", "-c", "echo '# mine' >> conf/config.yaml; exit "+code))
		require.Equal(t, code, string(rune('0'+got.code)), got.stderr)
		require.Contains(t, got.stderr, "was changed by another program")
		now, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(now), "# mine")
		require.Contains(t, jobDocument(t, home, "sh").Reason, "was changed by another program")
	}
}
