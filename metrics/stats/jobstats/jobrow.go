package jobstats

import "github.com/sapo-swarm/swarm/metrics/store"

// newJobRow summarizes a job.
func newJobRow(j store.Job, now float64, alive bool) JobRow {
	row := JobRow{
		Job: j.Job, Name: j.Name, State: j.State, Reason: j.Reason, Command: append([]string{}, j.Command...), Started: j.Started,
		Ended: unlessZero(j.Ended), ExitCode: j.ExitCode, AttemptCount: len(j.Attempts),
	}
	going := j.State == store.JobWaiting || j.State == store.JobRunning
	if going && !alive {
		row.State = JobLost
	}
	running := row.State == store.JobRunning
	var gpu, host int64
	for _, a := range j.Attempts {
		if a.Shortage() {
			row.Shortages++
		}
		row.ActiveSeconds += attemptSeconds(a, now, running)
		gpu, host = max(gpu, a.PeakGPU), max(host, a.PeakHost)
		if attemptState(a, running) == AttemptDone {
			seconds := a.Seconds()
			row.Seconds = &seconds
		}
	}
	row.PeakGPUBytes, row.PeakHostBytes = unlessZero(gpu), unlessZero(host)
	if n := len(j.Attempts); n > 0 {
		row.addSettings(j.Attempts[n-1])
	}
	row.ElapsedSeconds = max(0, jobUntil(j, now, row.State)-j.Started)
	return row
}

func (row *JobRow) addSettings(a store.JobAttempt) {
	row.Device, row.GPUName = a.Device, a.GPUName
	row.BatchSize, row.Accumulate, row.EffectiveBatch = unlessZero(a.BatchSize), unlessZero(a.Accumulate), effectiveBatch(a)
	row.GradientCheckpointing, row.Offload = a.GradientCheckpointing, a.Offload
}

// jobUntil returns when a job ended: now if it is still running, or when it was last heard of if it is lost.
func jobUntil(j store.Job, now float64, state string) float64 {
	switch {
	case j.Ended > 0:
		return j.Ended
	case state != JobLost:
		return now
	}
	return LastHeard(j)
}

// LastHeard returns the newest time in a job's rows, in Unix seconds.
func LastHeard(j store.Job) float64 {
	last := max(j.Started, j.Seen, j.Ended)
	for _, a := range j.Attempts {
		last = max(last, a.Started, a.Ended)
	}
	return last
}

// JobComparison is the document of `swarm compare` for jobs: their facts side by side. A job ran once, so that no test
// applies.
type JobComparison struct {
	Jobs  []JobRow `json:"jobs"`
	Notes []string `json:"notes"` // set by metrics/wording

	Commands int `json:"-"` // number of different commands
	Batches  int `json:"-"` // number of different effective batches
}

// CompareJobs lists jobs side by side, in the given order.
func CompareJobs(jobs []Job) JobComparison {
	c := JobComparison{Jobs: make([]JobRow, 0, len(jobs)), Notes: []string{}}
	keys, batches := map[string]bool{}, map[int]bool{}
	for _, j := range jobs {
		c.Jobs = append(c.Jobs, j.JobRow)
		keys[j.Key] = true
		if j.EffectiveBatch != nil {
			batches[*j.EffectiveBatch] = true
		}
	}
	c.Commands, c.Batches = len(keys), len(batches)
	return c
}
