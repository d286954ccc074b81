package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/fit"
)

// Plans leave out memory that a swarm run job has claimed and doesn't use yet.
func TestNodesAreNotPlannedIntoWhatJobsHaveClaimed(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	plan := func() outcome { return onGPUs(t, home, t4, "plan", "--model", "gpt2", "--nodes", "1", "-o", "json") }
	free := func() int64 {
		got := plan()
		require.Zero(t, got.code, got.stderr)
		var p fit.Plan
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &p))
		return p.GPUs[0].MemoryFree
	}
	all := free()
	hold := func(flags ...string) (end func()) {
		job := withGPUs(t, runIn(t, home, dir, append(flags, "--name", "holder", "--", "sh", "-c", "touch holds; sleep 1000")...), t4)
		require.NoError(t, job.Start())
		require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "holds")); return err == nil }, patience, pollEvery)
		return func() {
			require.Zero(t, swarm(t, home, "down", "holder", "--now").code)
			_ = waitFor(t, job)
			require.NoError(t, os.Remove(filepath.Join(dir, "holds")))
		}
	}
	end := hold("--memory", "9GB")
	require.Equal(t, all-9_000_000_000, free())
	end()
	end = hold()
	got := plan()
	require.Equal(t, fail.ExitNoRoom, got.code, "it has the GPU to itself: %s", got.stdout)
	got = onGPUs(t, home, t4, "tune", "--auto", "--workload", "lora-classifier", "--profile", "--", "true", "{batch_size}")
	require.Equal(t, fail.ExitNoRoom, got.code, got.stderr)
	require.Contains(t, got.stderr, "is in use by other jobs, so memory cannot be measured")
	end()
	require.Equal(t, all, free())
}

// Jobs leave out memory that is planned for a run's nodes, for as long as the run continues.
func TestJobsKeepOffWhatNodesAreToTake(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	up := withGPUs(t, swarmCommand(t, home, append([]string{"up", "--rounds", "100000"}, tinyRun("--device", "cuda")...)...), t4)
	up.Env = append(up.Env, enginesOnCPU+"=1")
	require.NoError(t, up.Start())
	status := awaitRounds(t, home, 1)
	job := func(flags ...string) outcome {
		return finish(t, withGPUs(t, runIn(t, home, dir, append(flags, "--", "true")...), t4))
	}
	got := job()
	require.Equal(t, fail.ExitNoRoom, got.code, "it would have the GPU to itself: %s", got.stderr)
	got = job("--memory", "1GB")
	require.Zero(t, got.code, got.stderr)
	require.Zero(t, swarm(t, home, "down", status.Run).code)
	_ = waitFor(t, up)
	got = job()
	require.Zero(t, got.code, got.stderr)
}
