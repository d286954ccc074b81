package query

import (
	"context"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// ExperimentCurve reads a metric (event.MetricNames) of an experiment's runs against an axis of stats.Axes. An unknown
// metric is a wrapped store.ErrNotFound.
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
	if s.Attempts, err = reader.Attempts(ctx, run.Run); err == nil {
		s.Evals, err = reader.EvalTimes(ctx, run.Run)
	}
	return s, err
}

// heldOutSeries reads the data for a run's held-out curves on every axis.
func heldOutSeries(ctx context.Context, reader *store.Reader, run store.Run) (stats.HeldOutSeries, error) {
	metrics := stats.AxisMetrics()
	s, err := runSeries(ctx, reader, run, metrics)
	if err != nil {
		return stats.HeldOutSeries{}, err
	}
	s.Values = s.More[metrics[0]]
	evals, err := reader.EvalTotals(ctx, run.Run)
	return stats.HeldOutSeries{RunSeries: s, Evals: evals}, err
}

// NamedCurves reads a metric's curves of a run, or of an experiment's runs that count in a comparison. An empty name
// selects the newest run. A name without runs is a wrapped store.ErrNotFound.
func NamedCurves(ctx context.Context, reader *store.Reader, name, metric string, o stats.CurveOptions) (stats.NamedCurves, error) {
	var out stats.NamedCurves
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return out, err
	}
	if out.Newest, err = Curve(ctx, reader, snapshot.Run, metric, o); err != nil {
		return out, err
	}
	totals, err := reader.Runs(ctx, store.Filter{Experiments: []string{snapshot.Run.Experiment}})
	if err != nil {
		return out, err
	}
	isRun := name == "" || name == snapshot.Run.Run
	totals = slices.DeleteFunc(totals, func(t store.Totals) bool { return isRun && t.Run.Run != snapshot.Run.Run })
	for _, group := range stats.Groups(totals, stats.CompareOptions{Key: ConfigKey, Differ: Differ()}, isRun) {
		c, err := ExperimentCurve(ctx, reader, group, metric, o)
		if err != nil {
			return out, err
		}
		out.Experiments = append(out.Experiments, c)
		if isRun || !o.Single {
			continue
		}
		for _, t := range group.Runs {
			run, err := Curve(ctx, reader, t.Run, metric, o)
			if err != nil {
				return out, err
			}
			out.Runs = append(out.Runs, run)
		}
	}
	return out, nil
}
