package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// hostInterval is how often a host without nodes checks whether the others' nodes are done.
const hostInterval = time.Second

// lookShare bounds the time spent on database checks to 1/lookShare of the total.
const lookShare = 20

// lookAnyway is the maximum time between database checks if no worker reports that it is done.
const lookAnyway = time.Minute

// stuckBarriers is the number of barrier deadlines without a new recorded round after which the run's end no longer
// waits for a node.
const stuckBarriers = 3

// Wait waits until the database has all rounds of the workers' nodes that count. A host without nodes of its own
// uses it. A worker's claims alone never end a run.
func (a *Admission) Wait(ctx context.Context) error {
	_, folder := a.transport.(*folderTransport)
	f := finish{
		rounds: a.run.Config.Rounds, counted: !folder, settled: time.Now().Add(a.silence()),
		patience: max(a.silence(), stuckBarriers*units.Seconds(a.run.Config.BarrierDeadline)), nodes: map[string]*finisher{},
	}
	ticker := time.NewTicker(hostInterval)
	defer ticker.Stop()
	a.ending.Store(true) // rounds recorded by an earlier process may suffice
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
				a.ending.Store(false) // no node has all its rounds: check again when a node claims so
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

// finish decides when workers' nodes have completed a run. It is pure.
type finish struct {
	rounds   int
	counted  bool          // shared rollouts pass through the coordinator, which counts them
	settled  time.Time     // until then, the coordinator may not know of some connected workers
	patience time.Duration // time without a new recorded round before a node counts as stuck
	nodes    map[string]*finisher
	begun    bool // a node has all its rounds
}

// finisher holds the known progress of a node towards its last round.
type finisher struct {
	recorded int
	moved    time.Time // when recorded last grew
}

// over reports whether the run is done: the database has all rounds of one node, and all rounds of every other node
// that is present and making progress. A node counts as through only if it also shared its last round. A worker can
// invent rounds, but cannot share the last one before the swarm gets there. If no node shared its last round, the run
// is done once no node lacks a round.
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
