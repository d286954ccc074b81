// Package job runs a user's training command until it fits into memory and ends (swarm run). It also finds such jobs
// by name, reports whether they run, stops them and finds their logs. It owns the files below jobs/ of a home. It
// takes a GPU (launcher/job/queue), sets the values in users' files (launcher/job/settings) and runs one attempt
// (launcher/job/attempt). After a memory shortage it chooses the next step (launcher/job/retry). Jobs and attempts
// are rows of metrics/store. The package accepts Options and a Session, and never parses flags or prints results. It
// must not import launcher/launch, launcher/plan, launcher/workers, node or cmd.
package job

import (
	"context"
	"errors"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/job/queue"
	"github.com/sapo-swarm/swarm/launcher/job/retry"
	"github.com/sapo-swarm/swarm/launcher/job/settings"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Job is a command that is retried until it fits into memory and ends.
type Job struct {
	o          *Options
	s          Session
	dir        string
	places     *places
	interrupts *interrupt.Watch

	stdout, stderr *liner
	together       bool // both streams are one terminal or one file

	store   *store.Store
	row     store.Job
	log     *supervise.Log // nil in the background, where all output goes to the log
	logged  *liner         // log as a liner
	devices *Devices
	queue   *queue.Queue
	ticket  *queue.Ticket
	claim   queue.Claim
	free    int64          // free bytes of its GPU just before the attempt; 0: unknown
	before  int64          // bytes that other processes held there
	loan    *settings.Loan // nil: no changed files

	attempts int
	unsaved  map[int]store.JobAttempt // not written to the database
	history  []retry.Outcome          // attempts that ran out of memory
	pids     []int                    // of the attempt, at the last sample
}

// New returns the job of a command. The caller has checked the options. Call Run to start the job.
func New(o Options, dir string, argv []string) (*Job, error) {
	places, err := parsePlaces(dir, &o, argv)
	if err != nil {
		return nil, err
	}
	return &Job{o: &o, dir: dir, places: places}, nil
}

// Run runs the job in this process. Ctrl-C ends the job's command cleanly, a second Ctrl-C at once. The error carries
// the command's exit code.
func (j *Job) Run(ctx context.Context, s Session) error {
	j.s = s
	j.stdout, j.stderr, j.together = outputLines(s)
	ctx, interrupts := interrupt.Notify(ctx, s.Stderr, "Stopping the command. Repeat to stop it at once.")
	defer interrupts.Close()
	j.interrupts = interrupts
	return j.run(ctx)
}

func (j *Job) run(ctx context.Context) (err error) {
	if err := j.recoverLoans(); err != nil {
		if len(j.places.files) > 0 {
			return err
		}
		j.say("%v", err) // these are other jobs' files, so this job can run
	}
	if j.store, err = store.Open(ctx, j.s.Home.Database(), store.Options{RetryFor: saveLimit * 4 / 5, Warn: func(err error) { j.say("%v", err) }}); err != nil {
		return err
	}
	defer func() {
		if err := j.store.Close(); err != nil { // keep the command's exit code
			j.say("the database was not closed cleanly: %v", err)
		}
	}()
	if err = j.openDevices(ctx); err != nil { // before the job's row exists: a missing --gpu creates no job
		return interrupt.Exit(ctx, err)
	}
	if err := j.begin(ctx); err != nil {
		j.devices.Close()
		return err
	}
	code, err := j.work(ctx)
	if err != nil {
		err = interrupt.Exit(ctx, err)
		j.end(ctx, j.s.ExitCode(err), fail.OneLine(err.Error()))
		return err
	}
	var stopped *interrupt.Error
	if errors.As(context.Cause(ctx), &stopped) {
		code = fail.ExitSignal + int(stopped.Signal)
	}
	j.end(ctx, code, "")
	if j.s.Report != nil {
		err = j.document(ctx)
	}
	if code == 0 {
		return err
	}
	if err != nil {
		j.say("%v", err)
	}
	return fail.Exit(code)
}

// work retries the command until it succeeds, fails for another reason than memory, or no step is left. It returns
// the command's exit code.
func (j *Job) work(ctx context.Context) (code int, err error) {
	defer j.leave()
	if len(j.places.files) > 0 {
		if err := j.lend(ctx); err != nil {
			return fail.ExitFailed, err
		}
	}
	if j.queue, err = queue.Open(j.s.Home.Queue()); err != nil {
		return fail.ExitFailed, err
	}
	j.queue.Log = j.s.Logger
	if err := j.first(ctx); err != nil {
		return fail.ExitFailed, err
	}
	setting, why := j.start(ctx)
	for {
		outcome, err := j.attempt(ctx, setting, why)
		if err != nil {
			return fail.ExitFailed, err
		}
		if outcome.Shortage == nil || outcome.Stopped || ctx.Err() != nil {
			j.reportEnd(outcome)
			return outcome.Status(), nil
		}
		next, reason, err := j.next(ctx, setting, outcome)
		if err != nil && ctx.Err() != nil {
			return fail.ExitFailed, err
		}
		if err != nil {
			j.row.Reason = fail.OneLine(err.Error())
			j.say("memory ran out (%s): %v", shortageText(*outcome.Shortage), err)
			return outcome.Status(), nil
		}
		j.say("memory ran out (%s): %s", shortageText(*outcome.Shortage), reason)
		setting, why = next, reason
	}
}

// leave returns the job's device and files. It reports failures, but the command's exit code does not change.
func (j *Job) leave() {
	if j.loan != nil {
		if err := j.loan.Revert(); err != nil {
			j.row.Reason = fail.OneLine(err.Error())
			j.say("%v", err)
		}
	}
	if err := j.ticket.Leave(); err != nil {
		j.say("%v", err) // the queue entry ends with this process
	}
	if j.devices != nil {
		j.devices.Close()
	}
}
