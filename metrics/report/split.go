package report

import (
	"context"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Split is the path of I and J of a run whose split isn't fixed: what its rule asked for, round by round.
type Split struct {
	Own, External stats.Curve // in stretches, as groups trained on
	Path          stats.Curve // J, a point a round as far as these are few
}

// readSplit reads a run's split, nil where it is fixed.
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

// splits lays the paths of J over each other; without curves where every split is fixed.
func (r *Report) splits() chart {
	out := chart{Kind: "curves", Options: chartOptions{
		Title:  "J by round as the run's rule chose it, mean over nodes, band from the lowest to the highest",
		YLabel: "J", Height: 260, YMin: new(float64), Colors: map[string]int{},
	}}
	for _, run := range r.Adaptive() {
		c := run.Split.Path
		out.Options.Colors[run.Name] = run.Color
		out.Curves = append(out.Curves, curveToDraw{c.Run, run.Name, c.Seed, c.Metric, c.Round, plotted(c.Mean), plotted(c.Low), plotted(c.High)})
	}
	return out
}

// Adaptive are the drawn runs whose split isn't fixed.
func (r *Report) Adaptive() []*Run {
	return slices.DeleteFunc(r.Drawn(), func(run *Run) bool { return run.Split == nil })
}
