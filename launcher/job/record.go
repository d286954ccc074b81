package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// identity names the process that has, or had, a job.
func identity(j store.Job) supervise.Identity {
	return supervise.Identity{PID: j.PID, Start: uint64(j.StartTicks), Boot: j.BootID}
}

// Elsewhere tells whether a job belongs to another host, whose processes can't be seen from here.
func Elsewhere(j store.Job) bool {
	host, err := os.Hostname()
	return err == nil && j.Host != "" && host != j.Host
}

// alive tells whether a job without an end goes on. Of one on another host only what it wrote last is known.
func alive(j store.Job) bool { return Elsewhere(j) || identity(j).Alive() }

// GoesOn tells whether a job waits or runs now.
func GoesOn(j store.Job) bool {
	return (j.State == store.JobWaiting || j.State == store.JobRunning) && alive(j)
}

// QueryOptions are those with which the database is asked for jobs, as of now.
func QueryOptions() query.JobOptions { return query.JobOptions{Now: event.Now(), Alive: alive} }

// Describe is a job's document, as of now.
func Describe(j store.Job) stats.Job {
	return stats.NewJob(j, event.Now(), j.Ended > 0 || alive(j))
}

// Named returns the job that a name means: a job's key, else of the jobs so called one that goes on, else the newest.
// False: it names none, or a run or an experiment, which come first.
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

// ToCompare returns the jobs that the names mean; nil where they mean none, and then experiments are meant. Jobs and
// others at once is a usage error.
func ToCompare(ctx context.Context, reader *store.Reader, names []string) ([]stats.Job, error) {
	var jobs []stats.Job
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
			fmt.Errorf("%s is a job of swarm run, and %s is none: jobs compare with jobs, experiments with experiments",
				jobs[0].Job, strings.Join(others, ", ")),
			"swarm status lists jobs, swarm compare experiments")

	}
	return jobs, nil
}
