package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// identity returns the process that runs, or ran, a job.
func identity(j store.Job) supervise.Identity {
	return supervise.Identity{PID: j.PID, Start: uint64(j.StartTicks), Boot: j.BootID}
}

// Elsewhere reports whether a job belongs to another host. Its processes are not visible here.
func Elsewhere(j store.Job) bool {
	host, err := os.Hostname()
	return err == nil && j.Host != "" && host != j.Host
}

// alive reports whether a job without an end still runs. For a job on another host it relies on the database.
func alive(j store.Job) bool {
	if Elsewhere(j) {
		return event.Now()-jobstats.LastHeard(j) < lifecycle.Silence
	}
	return identity(j).Alive()
}

// GoesOn reports whether a job waits or runs.
func GoesOn(j store.Job) bool {
	return (j.State == store.JobWaiting || j.State == store.JobRunning) && alive(j)
}

// QueryOptions returns the options for querying jobs as of the current time.
func QueryOptions() query.JobOptions { return query.JobOptions{Now: event.Now(), Alive: alive} }

// Describe returns a job's document as of the current time.
func Describe(j store.Job) jobstats.Job {
	return jobstats.NewJob(j, event.Now(), j.Ended > 0 || alive(j))
}

// Named returns the job with a name. A job's key comes first, then a running job with that name, then the newest one.
// It returns false if the name is not a job's, or if it is a run's or an experiment's, which have priority.
func Named(ctx context.Context, reader *store.Reader, name string) (store.Job, bool, error) {
	if name == "" {
		return store.Job{}, false, nil
	}
	job, err := reader.Job(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return job, false, nil
	}
	if err != nil {
		return job, false, err
	}
	if _, err := reader.Snapshot(ctx, name); !errors.Is(err, store.ErrNotFound) {
		return job, false, err
	}
	if job.Job == name || GoesOn(job) {
		return job, true, nil
	}
	jobs, err := reader.Jobs(ctx, store.JobFilter{Names: []string{name}})
	for _, j := range jobs {
		if GoesOn(j) {
			return j, true, err
		}
	}
	return job, true, err
}

// ToCompare returns the jobs with these names, or nil if no name is a job's, so that the names are experiments. A
// mixture is a usage error.
func ToCompare(ctx context.Context, reader *store.Reader, names []string) ([]jobstats.Job, error) {
	var jobs []jobstats.Job
	var others []string
	for _, name := range names {
		job, ok, err := Named(ctx, reader, name)
		if err != nil {
			return nil, err
		}
		if ok {
			jobs = append(jobs, Describe(job))
		} else {
			others = append(others, name)
		}
	}
	if len(jobs) > 0 && len(others) > 0 {
		return nil, fail.Usage(
			fmt.Errorf("%s is a job of swarm run, but %s is not: a job compares only with jobs, an experiment only with experiments",
				jobs[0].Job, strings.Join(others, ", ")),
			"swarm status, which lists jobs, or swarm compare, which lists experiments")

	}
	return jobs, nil
}
