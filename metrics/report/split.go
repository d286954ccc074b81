package report

import (
	"context"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Split holds I and J over the rounds of a run whose split is not fixed, as chosen by its rule.
type Split struct {
	Own, External stats.Curve // averaged over stretches, like the groups trained on
	Path          stats.Curve // J per round, thinned
}

// readSplit reads a run's split, or returns nil if it is fixed.
func readSplit(ctx context.Context, reader *store.Reader, row store.Run, window int) (*Split, error) {
	external, err := query.ReadRounds(ctx, reader, row, "split_external")
	if err != nil {
		return nil, err
	}
	path := external.Curve(stats.CurveOptions{Window: 1, Points: rawPoints})
	if !slices.ContainsFunc(path.Mean, units.Finite) {
		return nil, nil //nolint:nilnil // as documented
	}
	own, err := query.ReadRounds(ctx, reader, row, "split_own")
	if err != nil {
		return nil, err
	}
	return &Split{Own: stretches(own, window), External: stretches(external, window), Path: path}, nil
}

// splits overlays the curves of J. It has no curves if every split is fixed.
func (r *Report) splits() chart {
	out := chart{Kind: "curves", Options: chartOptions{
		Title:  "J by round as chosen by the run's rule, mean over nodes, band from lowest to highest node",
		YLabel: "J", Height: 260, YMin: new(float64), Colors: map[string]int{},
	}}
	for _, run := range r.Adaptive() {
		c := run.Split.Path
		out.Options.Colors[run.Name] = run.Color
		out.Curves = append(out.Curves, curveToDraw{c.Run, run.Name, c.Seed, c.Metric, c.Round, plotted(c.Mean), plotted(c.Low), plotted(c.High)})
	}
	return out
}

// Adaptive returns the drawn runs whose split is not fixed.
func (r *Report) Adaptive() []*Run {
	return slices.DeleteFunc(r.Drawn(), func(run *Run) bool { return run.Split == nil })
}
