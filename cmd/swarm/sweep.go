package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// sweep is a list of runs, one after the other. What is done it knows from the database alone.
type sweep struct {
	g       *globals
	items   []*sweepItem
	judge   *sweepVerdict // nil: of configurations that were named, which swarm compare judges
	price   price
	passed  []string // flags for swarm up
	signals <-chan os.Signal
	lines   *sweepLines // nil: text is wanted
	locks   sweepLocks
	reader  *store.Reader // nil where there is no database yet
	folder  string        // for the log and the summary of this sweep
}

// experiments are the names, in their order.
func (s *sweep) experiments() []string {
	var names []string
	for _, item := range s.items {
		if !slices.Contains(names, item.experiment()) {
			names = append(names, item.experiment())
		}
	}
	return names
}

// serve runs what is left, and what failed once more. Its error is a stop, or that the sweep can't go on; failed runs are none.
func (s *sweep) serve(ctx context.Context) error {
	status, err := s.status(ctx)
	if err != nil {
		return err
	}
	s.lines.tell(sweepEvent{Type: sweepStarted, Runs: status.Runs, Sweep: &status})
	for n, item := range s.items {
		if err := s.turn(ctx, n, item); err != nil {
			return err
		}
	}
	for n, item := range s.items {
		if !item.failed() || item.code == fail.ExitUsage { // what is refused is refused again
			continue
		}
		if err := s.turn(ctx, n, item); err != nil {
			return err
		}
	}
	return nil
}

// turn brings an item to its end, unless it is done. Its error is a stop, or that the database can't be read.
func (s *sweep) turn(ctx context.Context, n int, item *sweepItem) error {
	var status stats.SweepStatus
	for {
		var err error
		if status, err = s.status(ctx); err != nil {
			return interrupt.Exit(ctx, err)
		}
		if status.Rows[n].State == store.RunDone {
			if item.done || item.tried > 0 {
				item.code = fail.ExitDone
				return nil
			}
			return s.adopt(ctx, n, item)
		}
		waited, err := s.awaitOther(ctx, item)
		if err != nil {
			return err
		}
		if !waited {
			break
		}
	}
	s.tellStart(n, item, status)
	process, err := startChild(s.g, upArguments(s.g.home, item, s.passed, s.lines != nil), s.lines != nil)
	if err != nil {
		return err
	}
	item.tried++
	item.code, item.why = process.wait(s.signals)
	status, err = s.status(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	s.tellEnd(n, item, status)
	if ctx.Err() != nil {
		return interrupt.Exit(ctx, ctx.Err())
	}
	if item.code > fail.ExitSignal { // by its keys, or by swarm down
		return fail.Exit(item.code)
	}
	return nil
}

// adopt counts a run that another process has done meanwhile, or says why it doesn't count. Its error is that the database can't be read.
func (s *sweep) adopt(ctx context.Context, n int, item *sweepItem) error {
	err := s.recheck(ctx, item)
	if ctx.Err() != nil {
		return interrupt.Exit(ctx, ctx.Err())
	}
	item.code = fail.ExitDone
	if err == nil {
		item.done = true
		return nil
	}
	item.tried, item.code, item.refused, item.why = 1, fail.ExitUsage, true, err.Error()
	status, err := s.status(ctx)
	if err != nil {
		return err
	}
	s.tellEnd(n, item, status)
	return nil
}

// otherInterval is how often a sweep looks whether a run that isn't its own has ended.
const otherInterval = time.Second

// awaitOther waits while somebody else runs the item's experiment: the run of a sweep that was killed, mostly. It tells whether it had to.
func (s *sweep) awaitOther(ctx context.Context, item *sweepItem) (waited bool, err error) {
	progress := screen.NewStatusLine(s.g.stderr, 10*time.Second)
	defer progress.End()
	ticker := time.NewTicker(otherInterval)
	defer ticker.Stop()
	for ; ; waited = true {
		if ctx.Err() != nil {
			return waited, interrupt.Exit(ctx, ctx.Err())
		}
		running := lifecycle.AlreadyRunning(s.g.home, item.experiment())
		if running == nil {
			return waited, nil
		}
		if !waited {
			what, _ := fail.SplitRemedy(running.Error())
			fmt.Fprintf(s.g.stderr, "sweep: %s; waiting for its end (%s attach %s)\n", what, s.g.invocation(), item.experiment())
		} else if status, err := lifecycle.Status(ctx, s.reader, item.experiment()); err == nil {
			progress.Say(fmt.Sprintf("sweep: waiting for %s: round %d of %d", status.Run, status.Round, status.Rounds))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// end shows what the sweep came to, tells whoever wants to know, and returns the command's error. err is serve's.
func (s *sweep) end(ctx context.Context, err error, c *completion) error {
	status, readErr := s.status(ctx)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	var stopped *fail.ExitError
	state, code := store.RunDone, fail.ExitDone
	switch {
	case errors.As(err, &stopped):
		state, code = store.RunStopped, stopped.Code
	case err != nil:
		state, code = store.RunFailed, fail.ExitFailed
	case status.Done == 0:
		state, code = store.RunFailed, fail.ExitFailed
	case status.Done < status.Runs:
		state, code = store.RunLost, fail.ExitLost
	}
	summary := sweepSummary{Type: event.TypeSummary, Time: event.Now(), State: state, ExitCode: code, SweepStatus: status, Study: s.verdict(ctx)}
	shown := s.tellSummary(summary)
	if errors.Is(shown, syscall.EPIPE) {
		shown = nil // swarm sweep | head
	}
	if s.worked() {
		s.reader.Close()
		s.reader = nil
		s.locks.release()
		s.locks = nil
		c.finish(ctx, s.g, s.ending(summary))
	}
	if err == nil && code != fail.ExitDone {
		err = fail.Exit(code) // the table says which
	}
	return errors.Join(shown, err)
}

func (s *sweep) ending(summary sweepSummary) ending {
	names := ""
	for _, name := range s.experiments() {
		names += " " + name
	}
	return ending{
		Experiment: names[1:], State: summary.State, ExitCode: summary.ExitCode, Summary: summary,
		Folder: s.folder, Log: filepath.Join(s.folder, "sweep.log"),
	}
}

// worked tells whether the sweep ran anything: one that finds everything done has nothing to tell.
func (s *sweep) worked() bool {
	return slices.ContainsFunc(s.items, func(i *sweepItem) bool { return i.tried > 0 })
}

// status is what the sweep has come to, by the database.
func (s *sweep) status(ctx context.Context) (stats.SweepStatus, error) {
	rows, err := s.rows(ctx)
	if err != nil {
		return stats.SweepStatus{}, err
	}
	return stats.NewSweepStatus(rows, s.price.PerHour, s.price.Currency), nil
}
