package stats

import "github.com/sapo-swarm/swarm/metrics/store"

// newJobRow sums a job up.
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

// jobUntil is when a job ended, now of one that goes on, and of one that was lost when it was last heard of.
func jobUntil(j store.Job, now float64, state string) float64 {
	switch {
	case j.Ended > 0:
		return j.Ended
	case state != JobLost:
		return now
	}
	return LastHeard(j)
}

// LastHeard is the newest time that a job's rows tell, Unix seconds.
func LastHeard(j store.Job) float64 {
	last := max(j.Started, j.Ended)
	for _, a := range j.Attempts {
		last = max(last, a.Started, a.Ended)
	}
	return last
}

// JobComparison is the document of `swarm compare` of jobs: facts beside each other. A job ran once, so that nothing is
// tested.
type JobComparison struct {
	Jobs  []JobRow `json:"jobs"`
	Notes []string `json:"notes"` // metrics/wording sets it

	Commands int `json:"-"` // different ones
	Batches  int `json:"-"` // different effective batches
}

// CompareJobs puts jobs beside each other, in the order given.
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
