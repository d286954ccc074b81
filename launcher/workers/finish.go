package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// hostInterval is how often a host without nodes looks whether the others' are done.
const hostInterval = time.Second

// lookShare bounds what the looks into the database take of a coordinator's time: one in so many parts.
const lookShare = 20

// lookAnyway is how often the database is looked at though no worker says that it is done.
const lookAnyway = time.Minute

// stuckBarriers is for how many barrier deadlines a node may have no new round recorded and still be waited for at the
// run's end.
const stuckBarriers = 3

// Wait waits until the database has all rounds of the workers' nodes that count: what a host without nodes of its own
// does. A worker's own claims never end a run.
func (a *Admission) Wait(ctx context.Context) error {
	_, folder := a.transport.(*folderTransport)
	f := finish{
		rounds: a.run.Config.Rounds, counted: !folder, settled: time.Now().Add(a.silence()),
		patience: max(a.silence(), stuckBarriers*units.Seconds(a.run.Config.BarrierDeadline)), nodes: map[string]*finisher{},
	}
	ticker := time.NewTicker(hostInterval)
	defer ticker.Stop()
	a.ending.Store(true) // by what an earlier process has recorded
	for next, last := time.Now(), time.Now(); ; {
		if now := time.Now(); (a.ending.Load() || now.Sub(last) > lookAnyway) && !now.Before(next) {
			last = now
			recorded, err := a.run.Reader.Recorded(ctx, a.run.Name)
			if err != nil && ctx.Err() == nil {
				return err
			}
			if err == nil && f.over(now, recorded, a.server.Nodes()) {
				return nil
			}
			if !f.begun {
				a.ending.Store(false) // no node has all its rounds: the next one that says so is looked at
			}
			next = now.Add(lookShare * time.Since(now))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("run stopped: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// finish decides when the nodes of workers have done a run. It is pure.
type finish struct {
	rounds   int
	counted  bool          // shared rollouts pass through the coordinator, which counts them
	settled  time.Time     // before it, workers may not have been heard of yet that are there
	patience time.Duration // for a node of which no further round is recorded
	nodes    map[string]*finisher
	begun    bool // a node has all its rounds
}

// finisher is what is known of a node's end.
type finisher struct {
	recorded int
	moved    time.Time // when recorded last grew
}

// over tells whether the run is done: the database has all rounds of a node, and of every other that is there and gets
// on. A node counts as through the rounds only if it shared the last one, too: rounds can be invented, but nobody can
// share one before the swarm gets there. Where no node did, a run is done once nobody lacks a round.
func (f *finish) over(now time.Time, recorded map[string]int, nodes []membership.NodeStatus) bool {
	through, working, lacking := false, false, false
	f.begun = false
	for _, n := range nodes {
		k := f.nodes[n.Node]
		if k == nil {
			k = &finisher{moved: now}
			f.nodes[n.Node] = k
		}
		if r := recorded[n.Node]; r > k.recorded {
			k.recorded, k.moved = r, now
		}
		switch {
		case k.recorded >= f.rounds:
			f.begun = true
			through = through || !f.counted || n.Shared >= f.rounds-1
		case k.recorded > n.From || n.Here:
			lacking = true
			there := n.Here || !n.Gone && now.Before(f.settled)
			working = working || there && now.Sub(k.moved) < f.patience
		}
	}
	return f.begun && !working && (through || !lacking)
}
