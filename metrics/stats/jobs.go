package stats

import (
	"encoding/json"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// JobLost is shown for a job that counts as waiting or running while its process is gone.
const JobLost = "lost"

// States of an attempt.
const (
	AttemptRunning     = "running"
	AttemptLost        = "lost" // it has no end, and its job's process is gone
	AttemptDone        = "done"
	AttemptOutOfMemory = "out_of_memory"
	AttemptFailed      = "failed"
	AttemptStopped     = "stopped"
)

// JobRow is one job of a table: of `swarm status`, and of `swarm compare` of jobs. What isn't known is null. Settings
// are its newest attempt's.
type JobRow struct {
	Job            string   `json:"job"`
	Name           string   `json:"name"`
	State          string   `json:"state"` // waiting, running, done, failed, stopped, lost
	Reason         string   `json:"reason"`
	Command        []string `json:"command"` // as typed
	Started        float64  `json:"started"` // Unix seconds
	Ended          *float64 `json:"ended"`
	ExitCode       *int     `json:"exit_code"` // that was passed on
	AttemptCount   int      `json:"attempt_count"`
	Shortages      int      `json:"shortages"`       // attempts that ran out of memory
	ElapsedSeconds float64  `json:"elapsed_seconds"` // waiting and between attempts too
	ActiveSeconds  float64  `json:"active_seconds"`  // over attempts
	Seconds        *float64 `json:"seconds"`         // of the attempt that succeeded; null: none did

	Device                string `json:"device"` // cuda, cpu; empty: no attempt yet
	GPUName               string `json:"gpu_name"`
	BatchSize             *int   `json:"batch_size"`
	Accumulate            *int   `json:"accumulate"`
	EffectiveBatch        *int   `json:"effective_batch"` // batch size times accumulation steps
	GradientCheckpointing bool   `json:"gradient_checkpointing"`
	Offload               bool   `json:"offload"`
	PeakGPUBytes          *int64 `json:"peak_gpu_bytes"` // highest of any attempt
	PeakHostBytes         *int64 `json:"peak_host_bytes"`
}

// Job is the document of `swarm status JOB -o json`. Fields are only ever added.
type Job struct {
	JobRow
	Key      string       `json:"key"` // of the command; equal keys learn from each other
	Dir      string       `json:"dir"`
	Host     string       `json:"host"`
	PID      int          `json:"pid"` // of swarm run
	Log      string       `json:"log"` // path
	Attempts []JobAttempt `json:"attempts"`
}

// JobAttempt is one start of a job's command. What isn't known is null.
type JobAttempt struct {
	Attempt               int             `json:"attempt"` // from 1
	State                 string          `json:"state"`   // running, done, out_of_memory, failed, stopped, lost
	Cause                 string          `json:"cause"`   // empty; failed, stopped, or which memory ran out: torch, host_killed
	Step                  string          `json:"step"`    // what was changed before it
	Started               float64         `json:"started"`
	Ended                 *float64        `json:"ended"`
	Seconds               *float64        `json:"seconds"` // so far while it runs; null: lost
	Device                string          `json:"device"`
	GPU                   string          `json:"gpu"` // UUID
	GPUName               string          `json:"gpu_name"`
	GPUTotalBytes         *int64          `json:"gpu_total_bytes"`
	BatchSize             *int            `json:"batch_size"`
	Accumulate            *int            `json:"accumulate"`
	EffectiveBatch        *int            `json:"effective_batch"`
	GradientCheckpointing bool            `json:"gradient_checkpointing"`
	Offload               bool            `json:"offload"`
	Settings              json.RawMessage `json:"settings"`
	ExitCode              *int            `json:"exit_code"`
	Signal                string          `json:"signal"`
	AskedBytes            *int64          `json:"asked_bytes"` // of a shortage, like the next two
	FreeBytes             *int64          `json:"free_bytes"`
	AllocatedBytes        *int64          `json:"allocated_bytes"`
	PeakGPUBytes          *int64          `json:"peak_gpu_bytes"`
	PeakHostBytes         *int64          `json:"peak_host_bytes"`
	Message               string          `json:"message"`
}

// NewJob describes a job at the time now, Unix seconds. alive says whether its process still runs: only the caller can
// see that.
func NewJob(j store.Job, now float64, alive bool) Job {
	out := Job{JobRow: newJobRow(j, now, alive), Key: j.Key, Dir: j.Dir, Host: j.Host, PID: j.PID, Log: j.Log,
		Attempts: make([]JobAttempt, 0, len(j.Attempts))}
	running := out.State == store.JobRunning
	for _, a := range j.Attempts {
		out.Attempts = append(out.Attempts, newJobAttempt(a, now, running))
	}
	return out
}

func newJobAttempt(a store.JobAttempt, now float64, running bool) JobAttempt {
	out := JobAttempt{
		Attempt: a.Attempt, State: attemptState(a, running), Cause: a.Cause, Step: a.Step, Started: a.Started, Ended: unlessZero(a.Ended),
		Device: a.Device, GPU: a.GPU, GPUName: a.GPUName, GPUTotalBytes: unlessZero(a.GPUTotal),
		BatchSize: unlessZero(a.BatchSize), Accumulate: unlessZero(a.Accumulate), EffectiveBatch: effectiveBatch(a),
		GradientCheckpointing: a.GradientCheckpointing, Offload: a.Offload, Settings: a.Settings, ExitCode: a.ExitCode, Signal: a.Signal,
		AskedBytes: unlessZero(a.Asked), FreeBytes: unlessZero(a.Free), AllocatedBytes: unlessZero(a.Allocated),
		PeakGPUBytes: unlessZero(a.PeakGPU), PeakHostBytes: unlessZero(a.PeakHost), Message: a.Message,
	}
	if len(out.Settings) == 0 {
		out.Settings = json.RawMessage("{}")
	}
	if out.State != AttemptLost {
		seconds := attemptSeconds(a, now, running)
		out.Seconds = &seconds
	}
	return out
}

func attemptState(a store.JobAttempt, running bool) string {
	switch {
	case a.Ended == 0 && running:
		return AttemptRunning
	case a.Ended == 0:
		return AttemptLost
	case a.Shortage():
		return AttemptOutOfMemory
	case a.Cause == store.CauseFailed:
		return AttemptFailed
	case a.Cause == store.CauseStopped:
		return AttemptStopped
	}
	return AttemptDone
}

// attemptSeconds is how long an attempt took, or has taken; of one that was lost, 0.
func attemptSeconds(a store.JobAttempt, now float64, running bool) float64 {
	if a.Ended == 0 && running {
		return max(0, now-a.Started)
	}
	return a.Seconds()
}

// effectiveBatch is how many samples a step of the optimizer sees; without accumulation a batch.
func effectiveBatch(a store.JobAttempt) *int {
	return unlessZero(a.BatchSize * max(1, a.Accumulate))
}

// unlessZero is nil for what is 0 where nobody knows it.
func unlessZero[T int | int64 | float64](v T) *T {
	if v == 0 {
		return nil
	}
	return &v
}
