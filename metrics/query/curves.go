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

// ExperimentCurves reads the same against several axes, the rounds of each run once. An axis of which nothing is known is left out.
func ExperimentCurves(ctx context.Context, reader *store.Reader, groups []stats.Group, metric string, axes []stats.Axis, o stats.CurveOptions) (map[string][]stats.ExperimentCurve, error) {
	names := []string{metric}
	for _, a := range axes {
		names = append(names, a.Metrics()...)
	}
	out := map[string][]stats.ExperimentCurve{}
	for _, g := range groups {
		var runs []stats.RunSeries
		for _, t := range g.Runs {
			s, err := runSeries(ctx, reader, t.Run, names)
			if err != nil {
				return nil, err
			}
			s.Values = s.More[metric]
			runs = append(runs, s)
		}
		for _, a := range axes {
			o.Per = a.Name
			c, err := stats.NewExperimentCurve(g.Name, metric, runs, o)
			if err != nil {
				return nil, err
			}
			if len(c.X) > 0 {
				out[a.Name] = append(out[a.Name], c)
			}
		}
	}
	return out, nil
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
