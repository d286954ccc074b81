package query

import (
	"context"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/times"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Rounds holds a metric of a run's rounds, read once for several documents.
type Rounds struct {
	run    store.Run
	metric string
	values []store.RoundValue
}

// ReadRounds reads a metric of a run (event.MetricNames). An unknown metric is a wrapped store.ErrNotFound.
func ReadRounds(ctx context.Context, reader *store.Reader, run store.Run, metric string) (Rounds, error) {
	values, err := reader.RoundValues(ctx, run.Run, metric, 0)
	return Rounds{run, metric, values}, err
}

// Curve returns the same curve as the function Curve.
func (r Rounds) Curve(o stats.CurveOptions) stats.Curve {
	return stats.NewCurve(r.run, r.metric, r.values, o)
}

// Spread summarizes the distribution of the values of all nodes and rounds.
func (r Rounds) Spread() times.Spread {
	xs := make([]float64, len(r.values))
	for i, v := range r.values {
		xs[i] = v.Value
	}
	return times.NewSpread(xs)
}
