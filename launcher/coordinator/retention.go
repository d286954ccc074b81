package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/protocol"
)

const (
	returnRounds = 64               // kept for a workers' node that comes back, at most: as far as others' rollouts may be old
	strayRounds  = 2 * returnRounds // behind the middle one of the workers' nodes, where one counts for nothing
)

// retention drops shared rollouts that no node can need again: those before every node's second newest checkpoint (the
// newest may turn out damaged), less the rounds that others' rollouts are old when they are drawn. Where this host has
// nodes of its own, theirs count; else those of the workers' nodes that are here and in step.
type retention struct {
	transport workers.Transport
	own       bool
	lag       int // external_lag
	logger    *slog.Logger

	checkpoints map[string][2]int // node -> rounds of its second newest and newest checkpoint
	rounds      map[string]int    // workers' nodes -> rounds done
	purged      int
	work        chan int
	done        sync.WaitGroup
}

func newRetention(ctx context.Context, transport workers.Transport, nodes []string, lag int, logger *slog.Logger) *retention {
	r := &retention{
		transport: transport, own: len(nodes) > 0, lag: lag, logger: logger,
		checkpoints: map[string][2]int{}, rounds: map[string]int{}, work: make(chan int, 1),
	}
	for _, n := range nodes {
		r.checkpoints[n] = [2]int{}
	}
	r.done.Go(func() {
		for before := range r.work {
			if err := transport.Purge(ctx, before); err != nil && ctx.Err() == nil {
				logger.Warn("old rollouts not dropped", "error", err)
			}
		}
	})
	return r
}

// see takes note of an event of this host's. It is called from one goroutine at a time, with seeMember, and does not
// block.
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

// saved notes a checkpoint and tells whether it is new.
func (r *retention) saved(e event.Event) bool {
	c := r.checkpoints[e.Node]
	if e.Checkpoint.Round <= c[1] {
		return false
	}
	r.checkpoints[e.Node] = [2]int{c[1], e.Checkpoint.Round}
	return true
}

// seeMember takes note of an event that a worker delivered; members are who belongs to the swarm now.
func (r *retention) seeMember(e event.Event, members func() []protocol.Member) {
	switch {
	case r.own:
		return
	case e.Type == event.TypeCheckpoint && e.Checkpoint != nil:
		r.saved(e)
	case e.Type == event.TypeRound && e.Round != nil && e.Round.Round >= r.rounds[e.Node]:
		r.rounds[e.Node] = e.Round.Round + 1
	default:
		return
	}
	var needs, rounds []int
	for _, m := range members() {
		if m.Absent {
			continue
		}
		rounds = append(rounds, max(m.From, r.rounds[m.Node]))
		needs = append(needs, max(m.From, r.checkpoints[m.Node][0], r.rounds[m.Node]-returnRounds))
	}
	if len(needs) == 0 {
		return
	}
	slices.Sort(rounds)
	r.purge(max(slices.Min(needs), rounds[len(rounds)/2]-strayRounds))
}

// purge has what was shared before a round dropped, but for the rounds that others' rollouts may be old.
func (r *retention) purge(before int) {
	if before -= r.lag; before <= r.purged {
		return
	}
	r.purged = before
	select {
	case <-r.work: // one that waits is out of date
	default:
	}
	r.work <- before // there is room: nobody else sends
}

// shared is the batch that a node shared in a round, by its journal, nil where it has not got there.
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
