// Package job runs a user's training command until it fits and ends (swarm run). It also finds such jobs by name,
// reports whether they are running, stops them and finds their logs. It owns the files below jobs/ of a home, and the
// order of things: a GPU (launcher/job/queue), one attempt (launcher/job/attempt), after a shortage of memory the next
// step (launcher/job/retry), the values in people's files (launcher/job/settings). Jobs and attempts are rows of
// metrics/store. It takes Options and a Session, and never parses flags or prints results. It must not import
// launcher/launch, launcher/plan, launcher/workers, node or cmd.
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

// Job is a command, tried until it fits and ends.
type Job struct {
	o          *Options
	s          Session
	dir        string
	places     *places
	interrupts *interrupt.Watch

	stdout, stderr *liner
	together       bool // they are one terminal or one file

	store   *store.Store
	row     store.Job
	log     *supervise.Log // nil in the background: there everything printed is the log
	logged  *liner         // the same
	devices *Devices
	queue   *queue.Queue
	ticket  *queue.Ticket
	claim   queue.Claim
	free    int64          // bytes of its GPU just before the attempt; 0: not told
	before  int64          // bytes that others held there
	loan    *settings.Loan // nil: no file is changed

	attempts int
	unsaved  map[int]store.JobAttempt // that could not be written
	history  []retry.Outcome          // those that ran out of memory
	pids     []int                    // of the attempt, as sampled last
}

// New returns the job of a command, which begins at Run. Its options are checked.
func New(o Options, dir string, argv []string) (*Job, error) {
	places, err := parsePlaces(dir, &o, argv)
	if err != nil {
		return nil, err
	}
	return &Job{o: &o, dir: dir, places: places}, nil
}

// Run does the job, in this process: Ctrl-C ends its command in order, and a second one at once. The error carries the
// command's exit code.
func (j *Job) Run(ctx context.Context, s Session) error {
	j.s = s
	j.stdout, j.stderr, j.together = outputLines(s)
	ctx, interrupts := interrupt.Notify(ctx, s.Stderr, "Stopping the command. Again to stop it at once.")
	defer interrupts.Close()
	j.interrupts = interrupts
	return j.run(ctx)
}

func (j *Job) run(ctx context.Context) (err error) {
	if err := j.recoverLoans(); err != nil {
		if len(j.places.files) > 0 {
			return err
		}
		j.say("%v", err) // other jobs' files: no reason not to run this one
	}
	if j.store, err = store.Open(ctx, j.s.Home.Database(), store.Options{RetryFor: saveLimit * 4 / 5, Warn: func(err error) { j.say("%v", err) }}); err != nil {
		return err
	}
	defer func() {
		if err := j.store.Close(); err != nil { // the command's end stays what it was
			j.say("the database was not closed in order: %v", err)
		}
	}()
	if err = j.openDevices(ctx); err != nil { // before there is a job: a --gpu that isn't there makes none
		return interrupt.Exit(ctx, err)
	}
	if err := j.begin(ctx); err != nil {
		j.devices.Close()
		return err
	}
	code, err := j.work(ctx)
	if err != nil {
		err = interrupt.Exit(ctx, err)
		j.end(j.s.ExitCode(err), fail.OneLine(err.Error()))
		return err
	}
	var stopped *interrupt.Error
	if errors.As(context.Cause(ctx), &stopped) {
		code = fail.ExitSignal + int(stopped.Signal)
	}
	j.end(code, "")
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

// work tries the command until it succeeds, fails for another reason than memory, or nothing is left to try. The code
// is the command's.
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

// leave gives everything back that the job has taken. What can't be given back is told: the command's exit code is
// passed on all the same.
func (j *Job) leave() {
	if j.loan != nil {
		if err := j.loan.Revert(); err != nil {
			j.row.Reason = fail.OneLine(err.Error())
			j.say("%v", err)
		}
	}
	if err := j.ticket.Leave(); err != nil {
		j.say("%v", err) // the place in the queue ends with this process
	}
	if j.devices != nil {
		j.devices.Close()
	}
}
