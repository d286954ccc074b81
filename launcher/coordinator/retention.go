package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/journal"
)

const (
	returnRounds = 64               // kept at most for a returning worker's node: the maximum age of external rollouts
	strayRounds  = 2 * returnRounds // distance to the worker in the middle from which a node no longer counts
)

// retention drops shared rollouts that no node can need again. These are older than every node's second newest
// checkpoint (the newest may be damaged) by more than the maximum age at which nodes draw external rollouts. If
// this host has nodes, only they count, else the workers' nodes that are present and in step. A worker can invent
// rounds and checkpoints: they count only up to the round that it has shared.
type retention struct {
	transport workers.Transport
	own       bool
	lag       int // external_lag
	logger    *slog.Logger

	checkpoints map[string][2]int // by node: rounds of its second newest and newest checkpoint
	purged      int
	work        chan int
	done        sync.WaitGroup
}

func newRetention(ctx context.Context, transport workers.Transport, nodes []string, lag int, logger *slog.Logger) *retention {
	r := &retention{
		transport: transport, own: len(nodes) > 0, lag: lag, logger: logger,
		checkpoints: map[string][2]int{}, work: make(chan int, 1),
	}
	for _, n := range nodes {
		r.checkpoints[n] = [2]int{}
	}
	r.done.Go(func() {
		for before := range r.work {
			if err := transport.Purge(ctx, before); err != nil && ctx.Err() == nil {
				logger.Warn("old rollouts not deleted", "error", err)
			}
		}
	})
	return r
}

// see handles an event of this host. Calls of see and seeMember must not be concurrent. see does not block.
func (r *retention) see(e event.Event) {
	switch {
	case !r.own:
		return
	case e.Type == event.TypeGiveUp:
		delete(r.checkpoints, e.Node)
	case e.Type == event.TypeCheckpoint && e.Checkpoint != nil:
		if _, known := r.checkpoints[e.Node]; !known || !r.saved(e) {
			return
		}
	default:
		return
	}
	first := true
	oldest := 0
	for _, c := range r.checkpoints {
		if first || c[0] < oldest {
			oldest, first = c[0], false
		}
	}
	r.purge(oldest)
}

// saved records a checkpoint and reports whether it is new.
func (r *retention) saved(e event.Event) bool {
	c := r.checkpoints[e.Node]
	if e.Checkpoint.Round <= c[1] {
		return false
	}
	r.checkpoints[e.Node] = [2]int{c[1], e.Checkpoint.Round}
	return true
}

// seeMember handles an event that a worker delivered. nodes returns the states of the workers' nodes.
func (r *retention) seeMember(e event.Event, nodes func() []membership.NodeStatus) {
	switch {
	case r.own:
		return
	case e.Type == event.TypeCheckpoint && e.Checkpoint != nil:
		r.saved(e)
	case e.Type != event.TypeRound:
		return
	}
	furthest := map[string]int{} // by worker: many nodes of one count once
	oldest := math.MaxInt
	for _, n := range nodes() {
		if n.Absent || n.Gone {
			continue
		}
		furthest[n.Worker] = max(furthest[n.Worker], n.Trusted)
		oldest = min(oldest, max(n.From, min(r.checkpoints[n.Node][0], n.Trusted), n.Trusted-returnRounds))
	}
	if len(furthest) == 0 {
		return
	}
	rounds := slices.Sorted(maps.Values(furthest))
	r.purge(max(oldest, rounds[(len(rounds)-1)/2]-strayRounds))
}

// purge requests the removal of rollouts shared before a round, minus the maximum age of external rollouts.
func (r *retention) purge(before int) {
	if before -= r.lag; before <= r.purged {
		return
	}
	r.purged = before
	select {
	case <-r.work: // replace a waiting request
	default:
	}
	r.work <- before // does not block: this is the only sender
}

// shared returns the batch that a node shared in a round, from its journal, or nil if the node has not reached the
// round.
func (c *Run) shared(nodeID string, round int) ([]byte, error) {
	found, err := journal.Find(filepath.Join(c.dir, nodeID), round)
	if errors.Is(err, journal.ErrNotFound) || err == nil && found.Generated == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return found.Generated.Batch, nil
}

func (r *retention) close() {
	close(r.work)
	r.done.Wait()
}
