package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/journal"
)

// Replay applies a journaled update without generating anything, and returns the report that the round would have
// sent. A generate-only round has no update to apply.
func (n *Node) Replay(ctx context.Context, logged journal.Round) (event.Round, error) {
	report := logged.Trained.Report
	if report.GenerateOnly {
		return report, nil
	}
	began := time.Now()
	taken, err := n.update(ctx, logged.Round, logged.Update(), event.StateReplaying)
	taken.addTo(&report)
	report.StepTime += time.Since(began).Seconds()
	if err == nil {
		n.observeSplit(logged.Round, logged.Trained.Update, report.TrainedOwn, report.Reward)
	}
	return report, err
}

// recovery reads the state that a node's previous processes left on disk.
type recovery struct {
	dir      string
	first    int // round that the first process began with: the initial weights count as this many rounds
	rounds   int // configured rounds of the run; the rest of a longer run is ignored
	recorded int // the database has the rounds from first up to, but not including, this one
	saves    *checkpoints
	journal  *journal.Journal
	model    *governed
	emit     func(event.Event)
	split    json.RawMessage                         // Node.splitState from the restored checkpoint
	evaluate func(context.Context, *Node, int) error // attempt.evaluate
}

// resumed is the progress that a node's previous processes left.
type resumed struct {
	first      int     // next round to run
	replayed   int     // rounds before first that were replayed
	seconds    float64 // duration of the replay, without waiting for leases
	recovered  *RecoveredRound
	unreported *event.Event // report of the last round before first, if no previous process logged that it was sent
}

// restore loads the newest checkpoint from which the node can report every round that the database lacks. It
// returns the number of rounds in that state, at least first (the initial weights). It warns about each checkpoint
// that it cannot use.
func (p *recovery) restore(ctx context.Context) (int, error) {
	told, err := p.reported()
	if err != nil {
		return 0, err
	}
	choice, err := p.saves.restore(ctx, p.model, min(told, p.rounds))
	if err != nil {
		return 0, err
	}
	if choice.round == 0 && choice.tried {
		if err := p.model.reload(ctx); err != nil {
			return 0, err
		}
	}
	instead := "using the first weights and the journal instead"
	if choice.round > 0 {
		instead = fmt.Sprintf("using that of round %d and the journal instead", choice.round)
	}
	for _, reason := range choice.refused {
		what, why, _ := strings.Cut(reason, ": ")
		p.warn(fmt.Sprintf("%s not used: %s; %s", what, why, instead))
	}
	p.saves.dropAbove(choice.round)
	p.split = choice.newest.Split
	if choice.round > 0 { // a process that ended right after the write may not have reported it
		p.emit(event.Event{Type: event.TypeCheckpoint, Checkpoint: choice.newest.event(p.dir)})
	}
	return max(choice.round, p.first), nil
}

// undamaged returns err, or nil if it reports damage of the journal. After any other error the records may be intact,
// and a later process may read them.
func undamaged(err error) error {
	switch {
	case errors.Is(err, journal.ErrDamaged):
		return nil
	case errors.Is(err, journal.ErrVersion):
		return &Failure{event.CauseConfig, err}
	}
	return err
}

// reported is the first round that neither the database has nor the journal can report. It stops at a damaged
// record. replay warns about the damage if it matters.
func (p *recovery) reported() (int, error) {
	round := p.recorded
	for r, err := range journal.Rounds(p.dir, p.recorded) {
		if failure := undamaged(err); failure != nil {
			return round, failure
		}
		if err != nil || !reports(r) {
			break
		}
		round++
	}
	return round, nil
}

// reports reports whether a journaled round has the event that reported it.
func reports(r journal.Round) bool {
	return r.Done != nil && r.Done.Event.Type == event.TypeRound && r.Done.Event.Round != nil && r.Done.Event.Round.Round == r.Round
}

// replay continues from a state after from rounds through the intact part of the journal. It applies the logged
// updates and reports again the rounds that the database lacks. On a stop it returns ErrStopped, and no state is
// lost.
func (p *recovery) replay(ctx context.Context, n *Node, from int) (resumed, error) {
	out := resumed{first: from}
	for r, err := range journal.Rounds(p.dir, min(from, p.recorded)) {
		if failure := undamaged(err); failure != nil {
			return out, failure
		}
		if err != nil {
			p.warn(fmt.Sprintf("journal not used from round %d on: %v; the node computes these rounds again", out.first, err))
			break
		}
		if r.Round >= p.rounds {
			break
		}
		if r.Round >= from {
			more, err := p.apply(ctx, n, r, &out)
			if err != nil {
				return out, err
			}
			if !more {
				break
			}
		}
		if reports(r) {
			again := r.Done.Event
			again.Replayed = true
			p.report(again)
		}
	}
	if err := p.journal.Resume(out.first); err != nil {
		return out, err
	}
	if out.unreported != nil {
		p.report(*out.unreported)
		if err := p.journal.Done(out.first-1, journal.Done{Event: *out.unreported}); err != nil {
			return out, err
		}
	}
	return out, nil
}

// apply replays the next journaled round. more is false if the round has no training set: it is the round in which
// the last process died.
func (p *recovery) apply(ctx context.Context, n *Node, r journal.Round, out *resumed) (more bool, err error) {
	if out.unreported != nil { // the Done record of the round before is lost
		p.report(*out.unreported)
		out.unreported = nil
	}
	if g := r.Generated; g != nil && g.Seed != n.generateSeed(r.Round) {
		return false, &Failure{event.CauseConfig, fmt.Errorf(
			"the journal in %s belongs to another node, seed or run: round %d was sampled with seed %d, not %d. "+
				"Try: continue the run with its original settings, or begin a new one with --fresh",
			p.dir, r.Round, g.Seed, n.generateSeed(r.Round))}
	}
	if r.Generated != nil {
		if err := n.recallSplits(r.Generated.Split); err != nil {
			return false, &Failure{event.CauseConfig, fmt.Errorf("journal in %s, round %d: %w", p.dir, r.Round, err)}
		}
	}
	if r.Trained == nil {
		if r.Generated != nil {
			out.recovered = &RecoveredRound{Round: r.Round, Generated: r.Generated}
		}
		return false, nil
	}
	if err := p.evaluate(ctx, n, r.Round); err != nil {
		return false, err
	}
	p.model.round = r.Round
	began := time.Now()
	report, err := n.Replay(ctx, r)
	if err != nil {
		return false, fmt.Errorf("replay of round %d: %w", r.Round, err)
	}
	out.seconds += time.Since(began).Seconds() - (report.LeaseTime - r.Trained.Report.LeaseTime)
	if !reports(r) {
		out.unreported = &event.Event{Type: event.TypeRound, Time: event.Now(), Round: &report}
	}
	out.replayed++
	out.first = r.Round + 1
	return true, nil
}

// report emits a round's event if the database does not have the round.
func (p *recovery) report(e event.Event) {
	if e.Round.Round >= p.recorded {
		p.emit(e)
	}
}

// warn writes a warning to the log and sends it to the launcher.
func (p *recovery) warn(message string) {
	p.saves.logger.Warn(message)
	p.emit(event.Event{Type: event.TypeWarning, Message: message})
}
