package study

import (
	"context"

	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// verdict returns the verdict of a study or a grid at the end of its sweep, or nil for other sweeps. It also
// returns nil if the runs cannot be read, which does not make the sweep fail.
func (s *Sweep) verdict(ctx context.Context) *stats.Study {
	if s.judge == nil || s.reader == nil {
		return nil
	}
	o := query.CompareOptions{Alive: func(x store.Snapshot) bool { return lifecycle.Alive(x, event.Now()) }}
	o.Measure, o.Study, o.Bootstrap, o.Questions = s.judge.measure, s.judge.design, true, true
	comparison, err := query.Compare(ctx, s.reader, o)
	if err != nil {
		s.host.Logger.Warn("the verdict could not be computed", "error", err)
		return nil
	}
	return comparison.Study
}
