package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/journal"
)

// retention drops shared rollouts that no node can need again: those before every node's second newest checkpoint (the newest may
// turn out damaged), less the rounds that others' rollouts are old when they are drawn.
type retention struct {
	transport workers.Transport
	lag       int // external_lag
	logger    *slog.Logger

	checkpoints map[string][2]int // node -> rounds of its second newest and newest checkpoint
	purged      int
	work        chan int
	done        sync.WaitGroup
}

func newRetention(ctx context.Context, transport workers.Transport, nodes []string, lag int, logger *slog.Logger) *retention {
	r := &retention{transport: transport, lag: lag, logger: logger, checkpoints: map[string][2]int{}, work: make(chan int, 1)}
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

// see takes note of an event. It is called from one goroutine and does not block.
func (r *retention) see(e event.Event) {
	switch {
	case e.Type == event.TypeGiveUp:
		delete(r.checkpoints, e.Node)
	case e.Type == event.TypeCheckpoint && e.Checkpoint != nil:
		if c, known := r.checkpoints[e.Node]; known && e.Checkpoint.Round > c[1] {
			r.checkpoints[e.Node] = [2]int{c[1], e.Checkpoint.Round}
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
	if oldest -= r.lag; oldest > r.purged {
		select {
		case r.work <- oldest:
			r.purged = oldest
		default: // still busy with the last; the next checkpoint asks again
		}
	}
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
