package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// identityOfJob names the process that has, or had, a job.
func identityOfJob(j store.Job) supervise.Identity {
	return supervise.Identity{PID: j.PID, Start: uint64(j.StartTicks), Boot: j.BootID}
}

// jobElsewhere tells whether a job belongs to another host, whose processes can't be seen from here.
func jobElsewhere(j store.Job) bool {
	host, err := os.Hostname()
	return err == nil && j.Host != "" && host != j.Host
}

// jobAlive tells whether a job without an end goes on. Of one on another host only what it wrote last is known.
func jobAlive(j store.Job) bool { return jobElsewhere(j) || identityOfJob(j).Alive() }

// goesOn tells whether a job waits or runs now.
func goesOn(j store.Job) bool {
	return (j.State == store.JobWaiting || j.State == store.JobRunning) && jobAlive(j)
}

func jobOptions() query.JobOptions { return query.JobOptions{Now: event.Now(), Alive: jobAlive} }

// describeJob is a job's document, as of now.
func describeJob(j store.Job) stats.Job {
	return stats.NewJob(j, event.Now(), j.Ended > 0 || jobAlive(j))
}

// jobNamed returns the job that a name means: a job's key, else of the jobs so called one that goes on, else the newest. False: it names none,
// or a run or an experiment, which come first.
func jobNamed(ctx context.Context, reader *store.Reader, name string) (store.Job, bool, error) {
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
	if job.Job == name || goesOn(job) {
		return job, true, nil
	}
	jobs, err := reader.Jobs(ctx, store.JobFilter{Names: []string{name}})
	for _, j := range jobs {
		if goesOn(j) {
			return j, true, err
		}
	}
	return job, true, err
}

// commandLine is a command as its user would type it, in one line that a terminal can show.
func commandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		word = strings.ReplaceAll(charset.Shown(word), "\t", " ")
		if word == "" || strings.ContainsAny(word, " '\"\\$&|;<>()*?[]#~`!") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted[i] = word
	}
	return strings.Join(quoted, " ")
}

// batchText is 32 × 4: batch size and accumulation steps.
func batchText(batch, accumulate *int) string {
	switch {
	case batch == nil:
		return "–"
	case accumulate == nil:
		return fmt.Sprint(*batch)
	}
	return fmt.Sprintf("%d × %d", *batch, *accumulate)
}

// optionalText is a number, – where nobody knows it.
func optionalText[T any](v *T, text func(T) string) string {
	if v == nil {
		return "–"
	}
	return text(*v)
}
