package node

import (
	"context"
	"sync"
)

// leaseHost is the Host of a node whose memory is governed. Before a lease a new budget comes into force; the lease
// says how much memory it is for; and where the nodes' phases do not all fit at once, memory that it leaves cached is
// given back before it ends, so that whoever computes next finds it.
type leaseHost struct {
	*Link
	governed *governed
	trims    bool // what a phase leaves cached is given back
}

// Lease implements Host.
func (t *leaseHost) Lease(ctx context.Context, phase string) (func(), error) {
	if err := t.governed.rebudget(ctx); err != nil {
		return nil, err
	}
	release, err := t.Link.Lease(ctx, phase, t.governed.meter.need(phase))
	// Without leases the memory is wanted by the node's own next phase alone: an update needs what a generation keeps,
	// and leaves nothing that a generation can't use.
	if err != nil || !t.trims || !t.leased && phase == phaseUpdate {
		return release, err
	}
	return sync.OnceFunc(func() {
		// Where it fails the engine is lost, which its next call says.
		if err := t.governed.Trim(ctx); err != nil {
			t.governed.logger.Debug("cached memory not given back", "error", err)
		}
		release()
	}), nil
}
