package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/journal"
)

// rounds trains from round first to the end. After each round it reports the round and logs the report. It
// evaluates when due and writes checkpoints in the background. At the end, or on a stop, it writes a last
// checkpoint before it returns.
func (l *attempt) rounds(ctx context.Context, n *Node, first int) error {
	// The last process died before it wrote the checkpoint.
	if !n.Mode.GenerateOnly && first < n.Config.Rounds && (l.due(first) || first-l.saved >= n.Config.CheckpointEvery) {
		if err := l.beginCheckpoint(ctx, first, n.Mode.Recovered != nil); err != nil {
			return err
		}
	}
	for round := first; round < n.Config.Rounds; round++ {
		report, err := l.round(ctx, n, round)
		if errors.Is(err, ErrStopped) {
			if err := l.checkpoint(ctx, round); err != nil {
				return err
			}
			return l.orStopped(err, round)
		}
		if err != nil {
			return err
		}
		n.Mode.Recovered = nil
		if err := l.report(report); err != nil {
			return err
		}
		done := round + 1
		switch {
		case !l.due(done) || done == n.Config.Rounds:
			err = l.collect(ctx, false)
		case n.Mode.GenerateOnly:
			err = l.journal.Rotate(done) // the weights are the initial ones: a restart needs only the journal
		default:
			err = l.beginCheckpoint(ctx, done, false)
		}
		if err != nil {
			return err
		}
		if every := n.Config.ClearCacheEveryNRounds; every > 0 && done%every == 0 {
			if err := l.model.Trim(ctx); err != nil {
				return fmt.Errorf("clear the cache: %w", err)
			}
		}
	}
	if err := l.checkpoint(ctx, n.Config.Rounds); err != nil {
		return err
	}
	if err := l.evaluate(ctx, n, n.Config.Rounds); err != nil {
		return l.orStopped(err, n.Config.Rounds)
	}
	l.link.State(event.StateDone, n.Config.Rounds)
	return nil
}

// round evaluates the weights if due, and then runs the round.
func (l *attempt) round(ctx context.Context, n *Node, round int) (event.Round, error) {
	if err := l.evaluate(ctx, n, round); err != nil {
		return event.Round{}, err
	}
	l.model.round = round
	return n.Round(ctx, round)
}

// report sends a round's report and logs that it was sent.
func (l *attempt) report(report event.Round) error {
	e := event.Event{Type: event.TypeRound, Time: event.Now(), Round: &report}
	l.link.Emit(e)
	l.gauge.emit()
	return l.journal.Done(report.Round, journal.Done{Event: e})
}

// due reports whether a checkpoint is due after this number of rounds.
func (l *attempt) due(rounds int) bool {
	return rounds > l.saved && rounds%l.model.config.CheckpointEvery == 0
}

// beginCheckpoint starts to write the state after this number of rounds, while training continues. It also starts a new
// segment of the journal, unless the last segment already has records of the next round.
func (l *attempt) beginCheckpoint(ctx context.Context, rounds int, logged bool) error {
	if err := l.collect(ctx, true); err != nil {
		return err
	}
	if !logged {
		if err := l.journal.Rotate(rounds); err != nil {
			return err
		}
	}
	l.link.State(event.StateCheckpoint, rounds)
	written, err := l.saves.begin(ctx, l.model, rounds)
	if err != nil {
		return err
	}
	l.announce(written)
	return nil
}

// checkpoint makes sure that a checkpoint after this number of rounds is on disk.
func (l *attempt) checkpoint(ctx context.Context, rounds int) error {
	if err := l.collect(ctx, true); err != nil {
		return err
	}
	if rounds <= l.saved || l.model.start.GenerateOnly {
		return nil
	}
	l.link.State(event.StateCheckpoint, rounds)
	written, err := l.saves.save(ctx, l.model, rounds)
	if err != nil {
		return err
	}
	l.announce(&written)
	return nil
}

// collect handles the pending background checkpoint if it is written. If wait is set, it waits for that.
func (l *attempt) collect(ctx context.Context, wait bool) error {
	written, err := l.saves.collect(ctx, l.model, wait)
	if err != nil {
		return err
	}
	l.announce(written)
	return nil
}

// announce reports a checkpoint, unless written is nil.
func (l *attempt) announce(written *event.Checkpoint) {
	if written != nil {
		l.saved = written.Round
		l.link.Emit(event.Event{Type: event.TypeCheckpoint, Checkpoint: written})
	}
}
