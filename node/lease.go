package node

import (
	"context"
	"sync"
)

// leaseHost is the Host of a node whose memory is governed. Before each lease it applies a new budget, and its
// request names the bytes that the phase needs. If the nodes' phases do not all fit at once, it frees cached memory
// before it releases the lease, for the next node.
type leaseHost struct {
	*Link
	governed *governed
	trims    bool // free cached memory after each phase
}

// Lease implements Host.
func (t *leaseHost) Lease(ctx context.Context, phase string) (func(), error) {
	if err := t.governed.rebudget(ctx); err != nil {
		return nil, err
	}
	release, err := t.Link.Lease(ctx, phase, t.governed.meter.need(phase))
	// Without leases only the node's own next phase needs the memory. An update needs what a generation keeps
	// cached, and a generation can use all that an update leaves.
	if err != nil || !t.trims || !t.leased && phase == phaseUpdate {
		return release, err
	}
	return sync.OnceFunc(func() {
		// If Trim fails, the engine is lost, and its next call returns the error.
		if err := t.governed.Trim(ctx); err != nil {
			t.governed.logger.Debug("cached memory not freed", "error", err)
		}
		release()
	}), nil
}
