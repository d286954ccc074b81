package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/job/queue"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// jobDown is what swarm down -o json says of a job.
type jobDown struct {
	Job     string  `json:"job"`
	PID     int     `json:"pid"`
	Outcome string  `json:"outcome"` // stopped, running, not_running
	State   string  `json:"state"`   // of the job, afterwards
	Seconds float64 `json:"seconds"` // that stopping took
}

// downJob asks the swarm run of a job to stop, which ends its command, and waits for it; with --now it asks twice. It never kills swarm run
// itself: nobody would be left to end the command.
func downJob(ctx context.Context, g *globals, reader *store.Reader, job store.Job, o *downOptions) error {
	if o.all {
		return fail.Usage(fmt.Errorf("--all and %s at once", job.Job), "one of them")
	}
	if goesOn(job) && jobElsewhere(job) {
		return fail.Hint(
			fmt.Errorf("%s runs on %s, whose processes can't be stopped from here", job.Job, job.Host), "swarm down "+job.Job+" there")

	}
	result := jobDown{Job: job.Job, PID: job.PID, Outcome: outcomeIdle}
	var failure error
	if goesOn(job) {
		began := time.Now()
		failure = endJob(ctx, job, o)
		result.Seconds = time.Since(began).Seconds()
		result.Outcome = outcomeStopped
		if failure != nil {
			result.Outcome = outcomeLeft
		}
	}
	if failure == nil {
		began := time.Now()
		left, err := endOrphans(ctx, g, job, o)
		if left > 0 {
			result.Outcome, result.Seconds = outcomeStopped, result.Seconds+time.Since(began).Seconds()
		}
		if failure = err; err != nil {
			result.Outcome = outcomeLeft
		}
	}
	now, err := reader.Job(ctx, job.Job)
	if err != nil {
		return errors.Join(failure, err)
	}
	result.State = describeJob(now).State
	return errors.Join(tellJobDown(g, o, result), failure)
}

// endOrphans ends what is left of a job's command whose swarm run was killed: the queue knows its processes. They get half of the limit to end in
// order. left is how many there were.
func endOrphans(ctx context.Context, g *globals, job store.Job, o *downOptions) (left int, err error) {
	waiting, err := queue.Open(g.home.Queue())
	if err != nil {
		return 0, err
	}
	entries, err := waiting.List()
	if err != nil {
		return 0, err
	}
	var processes []supervise.Identity
	for _, e := range entries {
		if e.Orphaned && e.Name == job.Job {
			processes = e.Processes
		}
	}
	leader := func(id supervise.Identity) bool {
		group, err := syscall.Getpgid(id.PID)
		return err == nil && group == id.PID
	}
	term := o.limit / 2
	if o.now {
		term = 0
	}
	// First those whose group is theirs, which hears it too; what is left then had its time.
	for _, first := range []bool{true, false} {
		for _, id := range processes {
			if !id.Alive() || leader(id) != first {
				continue
			}
			left++
			if err := supervise.End(ctx, id, term); err != nil {
				return left, fail.Hint(fmt.Errorf("%s: %w", job.Job, err), "the same again; as that user, or as root")
			}
		}
		term = 0
	}
	return left, nil
}

// endJob signals the job's process and waits until it is gone, at most for the limit.
func endJob(ctx context.Context, job store.Job, o *downOptions) error {
	id := identityOfJob(job)
	process, err := os.FindProcess(id.PID) // before its identity is checked: the handle stays with the process
	if err != nil {
		return fmt.Errorf("stop %s: %w", job.Job, err)
	}
	defer process.Release() //nolint:errcheck // nothing is left to do with it
	limit, again := time.After(o.limit), time.After(lifecycle.SignalGap)
	if err := signalJob(job, process); err != nil {
		return err
	}
	ticker := time.NewTicker(lifecycle.PollInterval)
	defer ticker.Stop()
	for id.Alive() {
		select {
		case <-ticker.C:
		case <-again:
			if o.now {
				err = signalJob(job, process)
			}
		case <-limit:
			err = fail.Hint(
				fmt.Errorf("%s still runs %s after it was asked to stop", job.Job, o.limit), "swarm down "+job.Job+" --now, or a longer --timeout")

		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// signalJob sends SIGTERM, and wakes a process that is stopped, as by ctrl+z, if it still is the job's.
func signalJob(job store.Job, process *os.Process) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if !identityOfJob(job).Alive() {
			return nil
		}
		err := process.Signal(signal)
		if errors.Is(err, os.ErrPermission) {
			return fail.Hint(fmt.Errorf("stop %s: process %d belongs to another user", job.Job, job.PID), "swarm down as that user, or as root")
		}
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop %s: %w", job.Job, err)
		}
	}
	return nil
}

func tellJobDown(g *globals, o *downOptions, r jobDown) error {
	if o.output == "json" {
		return writeJSON(g.stdout, downDocument{Runs: []downRun{}, Jobs: []jobDown{r}})
	}
	var err error
	switch r.Outcome {
	case outcomeIdle:
		_, err = fmt.Fprintf(g.stdout, "%s does not run: %s.\n", r.Job, r.State)
	case outcomeStopped:
		_, err = fmt.Fprintf(g.stdout, "%s ended after %.1f s: %s.\n", r.Job, r.Seconds, r.State)
	}
	return err
}
