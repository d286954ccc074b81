// Package times summarizes the durations of rounds.
package times

import (
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// Spread summarizes the distribution of values. Non-finite values are left out. Without values all figures are null.
type Spread struct {
	Values  int      `json:"values"`
	Mean    *float64 `json:"mean"`
	Median  *float64 `json:"median"`
	P90     *float64 `json:"p90"` // 90th percentile
	Highest *float64 `json:"highest"`
}

// NewSpread describes xs.
func NewSpread(xs []float64) Spread {
	sorted := slices.DeleteFunc(slices.Clone(xs), func(x float64) bool { return !units.Finite(x) })
	slices.Sort(sorted)
	return Spread{
		Values: len(sorted), Mean: stats.Optional(sample.Mean(sorted)), Median: stats.Optional(sample.Quantile(sorted, 0.5)), P90: stats.Optional(sample.Quantile(sorted, 0.9)),
		Highest: stats.Optional(sample.Quantile(sorted, 1)),
	}
}

// Rounds summarizes the durations of a run's rounds, over nodes and rounds, in seconds.
type Rounds struct {
	Run   string `json:"run"`
	Parts []Part `json:"parts"` // step_time, the whole round, first
}

// Part is one of the durations of a round.
type Part struct {
	Metric string `json:"metric"`
	Spread
}

// Metrics returns the metrics of a round's durations: first the whole round, then its parts. The remainder is the
// exchange and checkpoints.
func Metrics() []string {
	var names []string
	for _, m := range event.Metrics() {
		if m.Unit == event.UnitSeconds {
			names = append(names, m.Name)
		}
	}
	return names
}
