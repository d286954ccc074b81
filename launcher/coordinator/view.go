package coordinator

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// View provides the data for a run's live view: its status, each node's history, and its logs. It is safe for
// concurrent use.
type View struct {
	reader *store.Reader
	run    string
	dir    string // the run's folder

	mu   sync.Mutex
	last stats.Status

	pastMu sync.Mutex
	seen   int64 // last event read from the run's timeline
	events map[string][]event.Event
	pasts  map[string]*past
}

// past is the history read for a node.
type past struct {
	terminal.NodeHistory
	evaluations int // number of the node's evaluations in the database at the last read
}

func NewView(reader *store.Reader, run, dir string) *View {
	return &View{reader: reader, run: run, dir: dir, events: map[string][]event.Event{}, pasts: map[string]*past{}}
}

func (v *View) Poll(ctx context.Context) (stats.Status, error) {
	status, err := lifecycle.Status(ctx, v.reader, v.run)
	if err == nil {
		v.mu.Lock()
		v.last = status
		v.mu.Unlock()
	}
	return status, err
}

// Latest returns the last status read.
func (v *View) Latest() stats.Status {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}

const (
	PastRounds = 2000   // maximum rounds on a node's page
	pastRows   = 200000 // maximum database rows to read for them, including rows of other nodes
	pastLeast  = 60
	pastEvents = 100 // maximum events kept per node
	pastPage   = 500

	pastEvaluated = 64 // maximum nodes of a run whose evaluations are read: the database returns all of them at once
)

// History returns the history of a node. The first call reads all of it, and later calls read only new entries.
func (v *View) History(ctx context.Context, node string) (terminal.NodeHistory, error) {
	status := v.Latest()
	v.pastMu.Lock()
	defer v.pastMu.Unlock()
	if err := v.readEvents(ctx); err != nil {
		return terminal.NodeHistory{}, err
	}
	p := v.pasts[node]
	if p == nil {
		rounds := max(pastLeast, min(PastRounds, pastRows/max(1, len(status.Nodes))))
		p = &past{NodeHistory: terminal.NodeHistory{First: max(0, roundsOf(status, node)-rounds)}}
		v.pasts[node] = p
	}
	if err := v.readRounds(ctx, node, p); err != nil {
		return terminal.NodeHistory{}, err
	}
	if len(status.Nodes) <= pastEvaluated {
		if err := v.readEvaluations(ctx, node, p); err != nil {
			return terminal.NodeHistory{}, err
		}
	}
	return terminal.NodeHistory{
		First: p.First, Rewards: slices.Clone(p.Rewards), HeldOut: slices.Clone(p.HeldOut), Events: slices.Clone(v.events[node]),
	}, nil
}

// roundsOf returns how many rounds a node has done.
func roundsOf(status stats.Status, node string) int {
	for _, n := range status.Nodes {
		if n.ID == node {
			return n.Round
		}
	}
	return 0
}

// readRounds adds the rounds since the last read.
func (v *View) readRounds(ctx context.Context, node string, p *past) error {
	for {
		rounds, err := v.reader.NodeRounds(ctx, v.run, node, p.First+len(p.Rewards), pastPage)
		if err != nil {
			return fmt.Errorf("read the rounds of %s: %w", node, err)
		}
		for _, r := range rounds {
			for p.First+len(p.Rewards) < r.Round {
				p.Rewards = append(p.Rewards, math.NaN())
			}
			if _, none := r.NonFinite["reward"]; none {
				r.Reward = math.NaN()
			}
			p.Rewards = append(p.Rewards, r.Reward)
		}
		if over := len(p.Rewards) - PastRounds; over > 0 {
			p.First += over
			p.Rewards = append(p.Rewards[:0], p.Rewards[over:]...)
		}
		if len(rounds) < pastPage {
			return nil
		}
	}
}

// readEvaluations reads a node's held-out rewards if there are new ones. It keeps those of the newest set of
// questions.
func (v *View) readEvaluations(ctx context.Context, node string, p *past) error {
	evaluated, err := v.reader.Evaluated(ctx, v.run)
	if err != nil {
		return fmt.Errorf("read the evaluations: %w", err)
	}
	if len(evaluated[node]) == p.evaluations {
		return nil
	}
	evals, err := v.reader.Evals(ctx, v.run)
	if err != nil {
		return fmt.Errorf("read the evaluations: %w", err)
	}
	p.evaluations, p.HeldOut = len(evaluated[node]), nil
	set := ""
	for _, e := range evals {
		if e.Node != node {
			continue
		}
		if e.Set != set {
			set, p.HeldOut = e.Set, nil
		}
		p.HeldOut = append(p.HeldOut, terminal.HeldOut{Round: e.Round, Reward: stats.EvalReward(e.Questions, e.Generations)})
	}
	return nil
}

// readEvents groups new events of the run's timeline by node.
func (v *View) readEvents(ctx context.Context) error {
	for {
		entries, err := v.reader.Timeline(ctx, v.run, v.seen, timelinePage)
		if err != nil {
			return fmt.Errorf("read the events: %w", err)
		}
		for _, e := range entries {
			v.seen = e.ID
			if e.Event.Node == "" || wording.Event(e.Event) == "" {
				continue
			}
			events := append(v.events[e.Event.Node], e.Event)
			v.events[e.Event.Node] = events[max(0, len(events)-pastEvents):]
		}
		if len(entries) < timelinePage {
			return nil
		}
	}
}

// Logs emits the lines of one log, or of all logs, until ctx ends. The view ends with the run, so Logs need not
// detect the run's end.
func (v *View) Logs(ctx context.Context, node string, last int, emit func(terminal.LogLine)) error {
	if _, err := os.Stat(v.dir); err != nil {
		return fmt.Errorf("the logs are missing: %w", err)
	}
	merge := runlog.Merge{Dir: v.dir, Last: last, Follow: true, Emit: func(l runlog.Line) error {
		emit(terminal.LogLine{Log: l.Log, Text: l.Text})
		return nil
	}}
	if node != "" {
		merge.Logs = []string{node}
	}
	return merge.Run(ctx, func(context.Context) (bool, error) { return false, nil })
}
