// Package query reads rows from metrics/store and builds the documents of metrics/stats. Commands, report, dashboard
// and exports call the same function for the same number. It contains no formulas and no SQL.
package query

import (
	"context"
	"math"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Curve reads a metric of a run (event.MetricNames). An unknown metric is a wrapped store.ErrNotFound.
func Curve(ctx context.Context, reader *store.Reader, run store.Run, metric string, o stats.CurveOptions) (stats.Curve, error) {
	values, err := reader.RoundValues(ctx, run.Run, metric, 0)
	if err != nil {
		return stats.Curve{}, err
	}
	return stats.NewCurve(run, metric, values, o), nil
}

// Evaluations reads the held-out evaluations of a run, with pass@k for ks as in evaluation.New.
func Evaluations(ctx context.Context, reader *store.Reader, run store.Run, ks ...int) (evaluation.Document, error) {
	evals, err := reader.Evals(ctx, run.Run)
	if err != nil {
		return evaluation.Document{}, err
	}
	return evaluation.New(run, evals, ks...), nil
}

// Tasks reads a run's rewards by task: over the whole run, and over its rounds, divided into at most the given number
// of steps.
func Tasks(ctx context.Context, reader *store.Reader, run store.Run, steps int) (stats.TaskTable, error) {
	snapshot, err := reader.Snapshot(ctx, run.Run)
	if err != nil {
		return stats.TaskTable{}, err
	}
	rounds := 0
	for _, n := range snapshot.Nodes {
		rounds = max(rounds, n.LastRound+1)
	}
	totals, err := reader.TaskTotals(ctx, run.Run, stats.TaskSteps(rounds, steps))
	if err != nil {
		return stats.TaskTable{}, err
	}
	return stats.NewTaskTable(run.Run, totals), nil
}

// Resources reads the time, GPU-hours, money and energy that a run has used so far. status is the run's current status.
func Resources(ctx context.Context, reader *store.Reader, run store.Run, status stats.Status) (stats.Resources, error) {
	devices, err := reader.Devices(ctx, run.Run, 0)
	if err != nil {
		return stats.Resources{}, err
	}
	return stats.NewResources(run, status.ElapsedSeconds, devices, math.Inf(1)), nil
}
