package node

import (
	"context"
	"sync"
)

// tenant is the Host of a node whose memory is governed. Before a lease a new budget comes into force; the lease says how much memory it
// is for; and memory that it leaves cached is given back before it ends, so that whoever computes next finds it.
type tenant struct {
	*Link
	governed *governed
	trims    bool // at the end of every lease
}

// Lease implements Host.
func (t *tenant) Lease(ctx context.Context, phase string) (func(), error) {
	if err := t.governed.rebudget(ctx); err != nil {
		return nil, err
	}
	release, err := t.Link.Lease(ctx, phase, t.governed.meter.need(phase))
	if err != nil || !t.trims {
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
