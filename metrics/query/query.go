// Package query reads from metrics/store what a document of metrics/stats is made of, and makes it: commands, report, dashboard and exports call
// the same function for the same number. It owns no formula and no SQL.
package query

import (
	"context"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// CompareOptions choose what is compared, and how.
type CompareOptions struct {
	Names []string // experiments; none: all
	stats.CompareOptions
}

// Compare compares experiments (`swarm compare`). The error is store.ErrNotFound, wrapped, for a name without runs.
func Compare(ctx context.Context, reader *store.Reader, o CompareOptions) (stats.Comparison, error) {
	panic("helper A")
}

// Curve reads a metric of a run (store.RoundMetrics).
func Curve(ctx context.Context, reader *store.Reader, run store.Run, metric string, o stats.CurveOptions) (stats.Curve, error) {
	panic("helper A")
}

// Evaluations reads the held-out evaluations of a run.
func Evaluations(ctx context.Context, reader *store.Reader, run store.Run) (stats.Evaluations, error) {
	panic("helper A")
}

// Tasks reads a run's rewards by task: whole, and over its rounds in at most so many steps.
func Tasks(ctx context.Context, reader *store.Reader, run store.Run, steps int) (stats.TaskTable, error) {
	panic("helper A")
}
