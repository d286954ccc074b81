package coordinator

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/launch"
	"github.com/sapo-swarm/swarm/launcher/mps"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// share starts MPS if the plan uses it. If auto chose it and the proof fails, the run continues without it. The
// plan then has the decision and its reason.
func (c *Run) share(ctx context.Context) (err error) {
	if c.p.Plan.Share != fit.ShareMPS {
		return nil
	}
	c.mps, err = openMPS(ctx, c)
	switch {
	case c.p.Config.Share == fit.ShareMPS:
		return err
	case err == nil:
		c.p.Plan = c.p.Plan.Governed()
	case ctx.Err() != nil:
		return err
	default:
		reason, _ := fail.SplitRemedy(strings.Join(strings.Fields(err.Error()), " "))
		c.p.Plan = c.p.Plan.Ungoverned(reason)
	}
	return nil
}

// openMPS starts NVIDIA MPS for the GPUs of a run's plan and proves that it governs them.
func openMPS(ctx context.Context, c *Run) (*mps.Host, error) {
	of := c.p.Plan
	o := mps.Options{
		Need: mps.Need{GPUsPerNode: of.Ranks()}, Dir: c.dir, Python: c.python.Path, Logger: c.h.Logger,
	}
	host, err := gpu.Detect(ctx) // again, because the proof depends on the memory that is free at the moment
	if err != nil {
		return nil, err
	}
	for _, room := range of.Rooms {
		for _, g := range host.GPUs {
			if room.GPU != nil && g.Index == *room.GPU {
				o.GPUs = append(o.GPUs, plan.MPSGPU(g, room.Nodes))
			}
		}
	}
	for _, at := range of.Placement {
		o.Place = append(o.Place, slices.IndexFunc(o.GPUs, func(g mps.GPU) bool { return at.GPU != nil && g.Index == *at.GPU }))
	}
	return mps.Open(ctx, o)
}

// mpsSharer adds each client's CUDA context to the node's budget, which covers only the allocator.
type mpsSharer struct {
	*mps.Host
	context int64
}

// ClientEnv implements launch.Sharer.
func (s mpsSharer) ClientEnv(index int, budget int64) []string {
	if budget > 0 {
		budget += s.context
	}
	return s.Host.ClientEnv(index, budget)
}

// verify warns if a node's engine is not a client of MPS, because CUDA falls back silently.
func (s mpsSharer) verify(ctx context.Context, e event.Event, index int, warn func(event.Event)) {
	ctx, cancel := context.WithTimeout(ctx, verifyLimit)
	defer cancel()
	if err := s.Verify(ctx, index, e.Loaded.EnginePID); err != nil && ctx.Err() == nil {
		text, _ := fail.SplitRemedy(err.Error())
		warn(event.Event{Type: event.TypeWarning, Node: e.Node, Time: event.Now(), Message: text})
	}
}

const verifyLimit = 10 * time.Second

// forwardFaults forwards faults of MPS until the channel is closed or ctx ends.
func forwardFaults(ctx context.Context, from <-chan mps.Fault, to chan<- launch.Fault) {
	for {
		select {
		case f, open := <-from:
			if !open {
				return
			}
			select {
			case to <- launch.Fault(f):
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
