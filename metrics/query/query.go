// Package query reads the rows of a metrics/stats document from metrics/store and builds the document: commands,
// report, dashboard and exports call the same function for the same number. It owns no formula and no SQL.
package query

import (
	"context"
	"math"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Curve reads a metric of a run (event.MetricNames). The error is store.ErrNotFound, wrapped, for an unknown metric.
func Curve(ctx context.Context, reader *store.Reader, run store.Run, metric string, o stats.CurveOptions) (stats.Curve, error) {
	values, err := reader.RoundValues(ctx, run.Run, metric, 0)
	if err != nil {
		return stats.Curve{}, err
	}
	return stats.NewCurve(run, metric, values, o), nil
}

// Evaluations reads the held-out evaluations of a run, with pass@k for ks as in stats.NewEvaluations.
func Evaluations(ctx context.Context, reader *store.Reader, run store.Run, ks ...int) (stats.Evaluations, error) {
	evals, err := reader.Evals(ctx, run.Run)
	if err != nil {
		return stats.Evaluations{}, err
	}
	return stats.NewEvaluations(run, evals, ks...), nil
}

// Tasks reads a run's rewards by task: whole, and over its rounds in at most so many steps.
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

// Resources reads what a run of that status took of its machine so far: time, GPU-hours, money and energy.
func Resources(ctx context.Context, reader *store.Reader, run store.Run, status stats.Status) (stats.Resources, error) {
	devices, err := reader.Devices(ctx, run.Run, 0)
	if err != nil {
		return stats.Resources{}, err
	}
	return stats.NewResources(run, status.ElapsedSeconds, devices, math.Inf(1)), nil
}
