package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/job/queue"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Outcomes of End.
const (
	OutcomeEnded   = "stopped"     // the job, or its remaining processes, have ended
	OutcomeRunning = "running"     // the job did not end
	OutcomeIdle    = "not_running" // there was nothing to stop
)

// Ended is the result of End, as swarm down -o json prints it.
type Ended struct {
	Job     string  `json:"job"`
	PID     int     `json:"pid"`
	Outcome string  `json:"outcome"`
	State   string  `json:"state"`   // of the job, after End
	Seconds float64 `json:"seconds"` // duration of the stop
}

// EndOptions are the options of End.
type EndOptions struct {
	Home  layout.Home
	Limit time.Duration // longest wait for the job's end
	Now   bool          // signal twice, so that the command is killed
}

// End asks the swarm run of a job to stop, which ends the job's command, and waits for it. End never kills swarm run
// itself, because then no process would end the command. It also ends the remaining processes of a killed swarm run.
// done is nil if End could not read the job.
func End(ctx context.Context, reader *store.Reader, job store.Job, o EndOptions) (done *Ended, err error) {
	if GoesOn(job) && Elsewhere(job) {
		return nil, fail.Hint(fmt.Errorf("%s runs on %s, whose processes cannot be stopped from this host", job.Job, job.Host), "swarm down "+job.Job+" there")
	}
	result := Ended{Job: job.Job, PID: job.PID, Outcome: OutcomeIdle}
	var failure error
	if GoesOn(job) {
		began := time.Now()
		failure = endRun(ctx, job, o)
		result.Seconds = time.Since(began).Seconds()
		result.Outcome = OutcomeEnded
		if failure != nil {
			result.Outcome = OutcomeRunning
		}
	}
	if failure == nil {
		began := time.Now()
		left, err := endOrphans(ctx, job, o)
		if left > 0 {
			result.Outcome, result.Seconds = OutcomeEnded, result.Seconds+time.Since(began).Seconds()
		}
		if failure = err; err != nil {
			result.Outcome = OutcomeRunning
		}
	}
	now, err := reader.Job(ctx, job.Job)
	if err != nil {
		return nil, errors.Join(failure, err)
	}
	result.State = Describe(now).State
	return &result, failure
}

// endOrphans ends the remaining processes of a job's command after its swarm run was killed. The queue records these
// processes. They get half of the limit to end cleanly. left is their number.
func endOrphans(ctx context.Context, job store.Job, o EndOptions) (left int, err error) {
	waiting, err := queue.Open(o.Home.Queue())
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
	term := o.Limit / 2
	if o.Now {
		term = 0
	}
	// Signal the group leaders first, together with their groups, and give them time to end. Then kill the other
	// processes: they have had that time too.
	for _, first := range []bool{true, false} {
		for _, id := range processes {
			if !id.Alive() || leader(id) != first {
				continue
			}
			left++
			if err := supervise.End(ctx, id, term); err != nil {
				return left, fail.Hint(fmt.Errorf("%s: %w", job.Job, err), "the same command again, as that user or as root")
			}
		}
		term = 0
	}
	return left, nil
}

// endRun signals the job's swarm run and waits until it is gone, at most for the limit.
func endRun(ctx context.Context, job store.Job, o EndOptions) error {
	id := identity(job)
	process, err := os.FindProcess(id.PID) // before the identity check: the handle stays with the process
	if err != nil {
		return fmt.Errorf("stop %s: %w", job.Job, err)
	}
	defer process.Release() //nolint:errcheck // nothing is left to do with it
	limit, again := time.After(o.Limit), time.After(lifecycle.SignalGap)
	if err := signalRun(job, process); err != nil {
		return err
	}
	ticker := time.NewTicker(lifecycle.PollInterval)
	defer ticker.Stop()
	for id.Alive() {
		select {
		case <-ticker.C:
		case <-again:
			if o.Now {
				err = signalRun(job, process)
			}
		case <-limit:
			err = fail.Hint(
				fmt.Errorf("%s still runs %s after the request to stop", job.Job, o.Limit), "swarm down "+job.Job+" --now, or a longer --timeout")

		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// signalRun sends SIGTERM if the process still belongs to the job. SIGCONT wakes a stopped process, for example after
// Ctrl-Z.
func signalRun(job store.Job, process *os.Process) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if !identity(job).Alive() {
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
