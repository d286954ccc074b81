// Package jobstats describes jobs, the training commands that `swarm run` runs: their attempts, times and memory. It is
// pure, as package stats is.
package jobstats

import (
	"encoding/json"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// JobLost is the state of a job that is recorded as waiting or running although its process is gone or silent.
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

// JobRow is one job in the tables of `swarm status` and `swarm compare`. Unknown figures are null. Settings are those
// of its newest attempt.
type JobRow struct {
	Job            string   `json:"job"`
	Name           string   `json:"name"`
	State          string   `json:"state"` // waiting, running, done, failed, stopped, lost
	Reason         string   `json:"reason"`
	Command        []string `json:"command"` // as typed
	Started        float64  `json:"started"` // Unix seconds
	Ended          *float64 `json:"ended"`
	ExitCode       *int     `json:"exit_code"` // as passed on by swarm run
	AttemptCount   int      `json:"attempt_count"`
	Shortages      int      `json:"shortages"`       // attempts that ran out of memory
	ElapsedSeconds float64  `json:"elapsed_seconds"` // including waiting and the time between attempts
	ActiveSeconds  float64  `json:"active_seconds"`  // sum over attempts
	Seconds        *float64 `json:"seconds"`         // of the successful attempt; null: none

	Device                string `json:"device"` // cuda, cpu; empty: no attempt yet
	GPUName               string `json:"gpu_name"`
	BatchSize             *int   `json:"batch_size"`
	Accumulate            *int   `json:"accumulate"`
	EffectiveBatch        *int   `json:"effective_batch"` // batch size times accumulation steps
	GradientCheckpointing bool   `json:"gradient_checkpointing"`
	Offload               bool   `json:"offload"`
	PeakGPUBytes          *int64 `json:"peak_gpu_bytes"` // maximum over all attempts
	PeakHostBytes         *int64 `json:"peak_host_bytes"`
}

// Job is the document of `swarm status JOB -o json`. Fields are only ever added.
type Job struct {
	JobRow
	Key      string       `json:"key"` // identifies the command; jobs with equal keys share remembered settings
	Dir      string       `json:"dir"`
	Host     string       `json:"host"`
	PID      int          `json:"pid"` // of swarm run
	Log      string       `json:"log"` // path
	Attempts []JobAttempt `json:"attempts"`
}

// JobAttempt is one start of a job's command. Unknown figures are null.
type JobAttempt struct {
	Attempt               int             `json:"attempt"` // from 1
	State                 string          `json:"state"`   // running, done, out_of_memory, failed, stopped, lost
	Cause                 string          `json:"cause"`   // empty, failed, stopped, or the memory that ran out: torch, host_killed
	Step                  string          `json:"step"`    // setting that was changed before this attempt
	Started               float64         `json:"started"`
	Ended                 *float64        `json:"ended"`
	Seconds               *float64        `json:"seconds"` // duration, so far if it is running; null: lost
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
	AskedBytes            *int64          `json:"asked_bytes"` // of a memory shortage, as the next two
	FreeBytes             *int64          `json:"free_bytes"`
	AllocatedBytes        *int64          `json:"allocated_bytes"`
	PeakGPUBytes          *int64          `json:"peak_gpu_bytes"`
	PeakHostBytes         *int64          `json:"peak_host_bytes"`
	Message               string          `json:"message"`
}

// NewJob describes a job at the time now, in Unix seconds. The caller checks whether the job's process still runs and
// passes the result as alive.
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

// attemptSeconds returns the duration of an attempt, so far if it is running; 0 if it was lost.
func attemptSeconds(a store.JobAttempt, now float64, running bool) float64 {
	if a.Ended == 0 && running {
		return max(0, now-a.Started)
	}
	return a.Seconds()
}

// effectiveBatch returns the number of samples per optimizer step. Without accumulation this is one batch.
func effectiveBatch(a store.JobAttempt) *int {
	return unlessZero(a.BatchSize * max(1, a.Accumulate))
}

// unlessZero returns nil for 0, which means unknown.
func unlessZero[T int | int64 | float64](v T) *T {
	if v == 0 {
		return nil
	}
	return &v
}
