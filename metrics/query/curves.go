package query

import (
	"context"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// ExperimentCurve reads a metric of an experiment's runs (event.MetricNames) against an axis of stats.Axes. The error is store.ErrNotFound,
// wrapped, for an unknown metric.
func ExperimentCurve(ctx context.Context, reader *store.Reader, group stats.Group, metric string, o stats.CurveOptions) (stats.ExperimentCurve, error) {
	axis, err := stats.AxisOf(o.Per)
	if err != nil {
		return stats.ExperimentCurve{}, err
	}
	var runs []stats.RunSeries
	for _, t := range group.Runs {
		s, err := runSeries(ctx, reader, t.Run, append(axis.Metrics(), metric))
		if err != nil {
			return stats.ExperimentCurve{}, err
		}
		s.Values = s.More[metric]
		runs = append(runs, s)
	}
	return stats.NewExperimentCurve(group.Name, metric, runs, o)
}

func runSeries(ctx context.Context, reader *store.Reader, run store.Run, metrics []string) (stats.RunSeries, error) {
	s := stats.RunSeries{Run: run, More: map[string][]store.RoundValue{}}
	var err error
	for _, name := range metrics {
		if s.More[name] != nil {
			continue
		}
		if s.More[name], err = reader.RoundValues(ctx, run.Run, name, 0); err != nil {
			return s, err
		}
	}
	s.Attempts, err = reader.Attempts(ctx, run.Run)
	return s, err
}
