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

// Replay applies a journaled update, without generating anything, and returns the round's report as it would have been.
// Of a node that only generates there is none to apply.
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

// recovery is what is on disk of a node's previous processes.
type recovery struct {
	dir      string
	first    int // round that the first process began with: so many rounds the model as it was first counts for
	rounds   int // that the run is to have: a longer run's are left alone
	recorded int // the database has the rounds from first to before this one
	saves    *checkpoints
	journal  *journal.Journal
	model    *governed
	emit     func(event.Event)
	split    json.RawMessage                         // saved with the checkpoint that was restored: Node.splitState
	evaluate func(context.Context, *Node, int) error // the weights, which hold so many rounds, where that is due and has not been done
}

// resumed is how far a node's previous processes have got it.
type resumed struct {
	first      int     // round to be done next
	replayed   int     // of the rounds before it, those applied again
	seconds    float64 // that took, without waiting for leases
	recovered  *RecoveredRound
	unreported *event.Event // of the last round before first, where no previous process has logged that it told of it
}

// restore brings the newest state back from which everything that the database lacks can be told, and returns the
// rounds it holds: at worst first, the model as it was first. What can't be used is a warning.
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
	instead := "the first weights and the journal are used instead"
	if choice.round > 0 {
		instead = fmt.Sprintf("that of round %d and the journal are used instead", choice.round)
	}
	for _, reason := range choice.refused {
		what, why, _ := strings.Cut(reason, ": ")
		p.warn(fmt.Sprintf("%s not used: %s; %s", what, why, instead))
	}
	p.saves.dropAbove(choice.round)
	p.split = choice.newest.Split
	if choice.round > 0 { // a process that ended as soon as it was written may not have told of it
		p.emit(event.Event{Type: event.TypeCheckpoint, Checkpoint: choice.newest.event(p.dir)})
	}
	return max(choice.round, p.first), nil
}

// reported is the first round that neither the database has nor the journal can tell of. What is damaged ends it;
// replay says so where it matters.
func (p *recovery) reported() (int, error) {
	round := p.recorded
	for r, err := range journal.Rounds(p.dir, p.recorded) {
		if errors.Is(err, journal.ErrVersion) {
			return round, &Failure{event.CauseConfig, err}
		}
		if err != nil || !reports(r) {
			break
		}
		round++
	}
	return round, nil
}

// reports tells whether a journaled round has the event that told of it.
func reports(r journal.Round) bool {
	return r.Done != nil && r.Done.Event.Type == event.TypeRound && r.Done.Event.Round != nil && r.Done.Event.Round.Round == r.Round
}

// replay goes from a state with so many rounds on through the journal, as far as it is whole: it applies the logged
// updates, and tells again of what the database lacks. It returns ErrStopped when the node is to stop; nothing is lost
// then.
func (p *recovery) replay(ctx context.Context, n *Node, from int) (resumed, error) {
	out := resumed{first: from}
	for r, err := range journal.Rounds(p.dir, min(from, p.recorded)) {
		if errors.Is(err, journal.ErrVersion) {
			return out, &Failure{event.CauseConfig, err}
		}
		if err != nil {
			p.warn(fmt.Sprintf("journal not used from round %d on: %v; the lost part is computed again", out.first, err))
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

// apply takes the next journaled round. It says no more where that has no training set: it is the one that the last
// process died in.
func (p *recovery) apply(ctx context.Context, n *Node, r journal.Round, out *resumed) (more bool, err error) {
	if out.unreported != nil { // of the round before: its Done was lost
		p.report(*out.unreported)
		out.unreported = nil
	}
	if g := r.Generated; g != nil && g.Seed != n.generateSeed(r.Round) {
		return false, &Failure{event.CauseConfig, fmt.Errorf(
			"the journal in %s is of another node, seed or run: round %d was sampled from seed %d, not %d. "+
				"Try: continue the run as it was begun, or begin another with --fresh",
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

// report tells of a round, if the database doesn't have it.
func (p *recovery) report(e event.Event) {
	if e.Round.Round >= p.recorded {
		p.emit(e)
	}
}

// warn tells the log and the launcher.
func (p *recovery) warn(message string) {
	p.saves.logger.Warn(message)
	p.emit(event.Event{Type: event.TypeWarning, Message: message})
}
