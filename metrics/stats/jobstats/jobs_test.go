package jobstats

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

func exit(code int) *int { return &code }

// aShortJob ran out of memory twice and then succeeded.
func aShortJob() store.Job {
	return store.Job{Job: "train-1", Name: "train", Key: "k", Command: []string{"train"}, State: store.JobDone, Started: 100, Ended: 300,
		ExitCode: exit(0),
		Attempts: []store.JobAttempt{
			{Job: "train-1", Attempt: 1, Started: 110, Ended: 120, BatchSize: 64, Accumulate: 1, Cause: "torch", ExitCode: exit(1),
				Asked: 5, PeakGPU: 80, PeakHost: 3},
			{Job: "train-1", Attempt: 2, Started: 121, Ended: 131, BatchSize: 32, Accumulate: 2, Cause: "host_killed",
				Signal: "killed", PeakGPU: 60, PeakHost: 9},
			{Job: "train-1", Attempt: 3, Started: 140, Ended: 300, BatchSize: 16, Accumulate: 4, GradientCheckpointing: true, ExitCode: exit(0), PeakGPU: 40,
				Device: "cuda", GPUName: "H100"},
		}}
}

func TestAJobIsSummedUpOverItsAttempts(t *testing.T) {
	j := NewJob(aShortJob(), 1000, false)
	require.Equal(t, store.JobDone, j.State, "one that has ended can't be lost")
	require.Equal(t, []any{3, 2, 200.0, 180.0, 160.0}, []any{j.AttemptCount, j.Shortages, j.ElapsedSeconds, j.ActiveSeconds, *j.Seconds})
	require.Equal(t, []any{16, 4, 64, true, false, int64(80), int64(9), "H100"},
		[]any{*j.BatchSize, *j.Accumulate, *j.EffectiveBatch, j.GradientCheckpointing, j.Offload, *j.PeakGPUBytes, *j.PeakHostBytes, j.GPUName})
	var states []string
	for _, a := range j.Attempts {
		states = append(states, a.State)
	}
	require.Equal(t, []string{AttemptOutOfMemory, AttemptOutOfMemory, AttemptDone}, states)
	require.Equal(t, []any{int64(5), (*int64)(nil), 64, 10.0},
		[]any{*j.Attempts[0].AskedBytes, j.Attempts[0].FreeBytes, *j.Attempts[1].EffectiveBatch, *j.Attempts[1].Seconds})
}

func TestAJobWithoutAnEnd(t *testing.T) {
	j := aShortJob()
	j.State, j.Ended, j.ExitCode = store.JobRunning, 0, nil
	j.Attempts[2].Ended, j.Attempts[2].ExitCode = 0, nil
	running := NewJob(j, 200, true)
	require.Equal(t, []any{store.JobRunning, AttemptRunning, 60.0, 80.0, 100.0, (*float64)(nil)},
		[]any{running.State, running.Attempts[2].State, *running.Attempts[2].Seconds, running.ActiveSeconds, running.ElapsedSeconds, running.Seconds})
	lost := NewJob(j, 1e6, false)
	require.Equal(t, []any{JobLost, AttemptLost, (*float64)(nil), 20.0, 40.0},
		[]any{lost.State, lost.Attempts[2].State, lost.Attempts[2].Seconds, lost.ActiveSeconds, lost.ElapsedSeconds}, "until it was last heard of")
	j.Seen = 190
	require.Equal(t, 90.0, NewJob(j, 1e6, false).ElapsedSeconds, "until its last heartbeat")
	before := NewJob(j, 50, true)
	require.Equal(t, []any{0.0, 0.0}, []any{before.ElapsedSeconds, *before.Attempts[2].Seconds}, "a clock set back")
	waiting := NewJob(store.Job{Job: "w-1", State: store.JobWaiting, Started: 100}, 130, true)
	require.Equal(t, []any{store.JobWaiting, 30.0, (*int)(nil)}, []any{waiting.State, waiting.ElapsedSeconds, waiting.BatchSize})
}

func TestAJobsDocumentHasNullForWhatIsUnknown(t *testing.T) {
	running := store.Job{Job: "w-1", State: store.JobRunning, Started: 1, Attempts: []store.JobAttempt{{Attempt: 1, Started: 2}}}
	text, err := json.Marshal(NewJob(running, 3, true))
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(text, &got))
	for _, key := range []string{"ended", "exit_code", "seconds", "batch_size", "accumulate", "effective_batch", "peak_gpu_bytes", "peak_host_bytes"} {
		require.Contains(t, got, key)
		require.Nil(t, got[key], key)
	}
	require.Equal(t, []any{}, got["command"])
	attempts, ok := got["attempts"].([]any)
	require.True(t, ok, "the attempts themselves, not their number")
	require.Equal(t, map[string]any{}, attempts[0].(map[string]any)["settings"])
}

func TestOtherEndsOfAttempts(t *testing.T) {
	for cause, want := range map[string]string{
		"": AttemptDone, "failed": AttemptFailed, "stopped": AttemptStopped, "jax": AttemptOutOfMemory, "host_allocation": AttemptOutOfMemory,
	} {
		require.Equal(t, want, attemptState(store.JobAttempt{Started: 1, Ended: 2, Cause: cause}, false), cause)
	}
}

func TestComparedJobsThatAreUnlikeAreCounted(t *testing.T) {
	one := aShortJob()
	two, three := one, one
	same := CompareJobs([]Job{NewJob(one, 1, true), NewJob(two, 1, true)})
	require.Equal(t, []int{1, 1}, []int{same.Commands, same.Batches})
	two.Key = "other"
	three.Attempts = one.Attempts[:1]
	three.Attempts[0].BatchSize = 60
	c := CompareJobs([]Job{NewJob(one, 1, true), NewJob(two, 1, true), NewJob(three, 1, true)})
	require.Len(t, c.Jobs, 3)
	require.Equal(t, []int{2, 2}, []int{c.Commands, c.Batches})
}
