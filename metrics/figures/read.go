package figures

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Seed is one run of a Config.
type Seed struct {
	Seed        int64
	Raw, Smooth stats.Curve         // reward, every round
	Evaluations evaluation.Document // with pass@1
	Split       stats.Curve         // J over rounds; empty if the split is fixed

	places map[int]float64 // position on the axis of the end of each round
}

// splitMetric is J of a round in a run whose split is not fixed.
const splitMetric = "split_external"

// Read reads the requested runs: experiments in the order of their names, a study's in its order, or all by start. The
// same runs count as in stats.Compare: for a study only finished runs, for an experiment its finished runs, or all if
// none is finished. curves sets the smoothing of rewards in rounds (below 1: the paper's window), the axis, and whether
// single runs are drawn. A name without runs is a *query.UnknownError. If no run counts, the error is a wrapped
// store.ErrNotFound.
func Read(ctx context.Context, reader *store.Reader, o query.CompareOptions, curves stats.CurveOptions) (*Data, error) {
	if curves.Window < 1 {
		curves.Window = stats.PaperWindow
	}
	axis, err := stats.AxisOf(curves.Per)
	if err != nil {
		return nil, err
	}
	totals, err := o.Runs(ctx, reader)
	if err != nil {
		return nil, err
	}
	names, labels := chosen(o, totals)
	d := &Data{Window: curves.Window, Per: axis, Single: curves.Single}
	curves.Single, curves.Points = true, 0
	counted := stats.Counted(totals, stats.CompareOptions{})
	for i, name := range names {
		c := Config{Experiment: name, Label: labels[i]}
		group := stats.Group{Name: name}
		for _, t := range counted {
			if t.Experiment != name || o.Study != nil && t.State != store.RunDone {
				continue
			}
			group.Runs = append(group.Runs, t)
			seed, err := readSeed(ctx, reader, t.Run, curves.Window)
			if err != nil {
				return nil, err
			}
			c.Seeds = append(c.Seeds, seed)
		}
		if len(c.Seeds) == 0 {
			if o.Study == nil {
				return nil, &query.UnknownError{Name: name}
			}
			continue
		}
		if c.Curve, err = query.ExperimentCurve(ctx, reader, group, "reward", curves); err != nil {
			return nil, err
		}
		c.place(group)
		slices.SortStableFunc(c.Seeds, func(a, b Seed) int { return cmp.Compare(a.Seed, b.Seed) })
		d.Configs = append(d.Configs, c)
	}
	if len(d.Configs) == 0 {
		return nil, fmt.Errorf("figures: %w", store.ErrNotFound)
	}
	return d, nil
}

// place records the positions of each run's rounds on the axis. Seeds must still be in the order of the group's runs.
func (c *Config) place(group stats.Group) {
	for i, t := range group.Runs {
		at := slices.IndexFunc(c.Curve.Single, func(l stats.RunLine) bool { return l.Run == t.Run.Run })
		if at < 0 {
			continue
		}
		c.Seeds[i].places = map[int]float64{}
		for k, round := range c.Seeds[i].Raw.Round {
			c.Seeds[i].places[round] = c.Curve.Single[at].X[k]
		}
	}
}

// chosen returns the experiments to draw, without duplicates, and their labels.
func chosen(o query.CompareOptions, totals []store.Totals) (names, labels []string) {
	asked := o.Names
	switch {
	case o.Study != nil:
		asked = o.Study.Experiments()
	case len(asked) == 0:
		for _, t := range totals {
			asked = append(asked, t.Experiment)
		}
	}
	for _, name := range asked {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if o.Study == nil {
		return names, shortNames(names)
	}
	for _, name := range names {
		labels = append(labels, splitLabel(o.Study.ShortName(name)))
	}
	return names, labels
}

func readSeed(ctx context.Context, reader *store.Reader, run store.Run, window int) (Seed, error) {
	s := Seed{Seed: run.Seed}
	rewards, err := query.ReadRounds(ctx, reader, run, "reward")
	if err != nil {
		return s, err
	}
	s.Raw, s.Smooth = rewards.Curve(stats.CurveOptions{}), rewards.Curve(stats.CurveOptions{Window: window})
	if s.Evaluations, err = query.Evaluations(ctx, reader, run, 1); err != nil {
		return s, err
	}
	s.Split, err = query.Curve(ctx, reader, run, splitMetric, stats.CurveOptions{})
	return s, err
}
