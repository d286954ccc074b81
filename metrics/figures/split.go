package figures

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// splitPath draws the number of external groups of each round, for runs whose nodes choose it: one panel per
// configuration.
func (d *Data) splitPath() []byte {
	var panels []*plot.Plot
	lines := 0
	for _, c := range d.Configs {
		lines += 3 + len(c.Seeds)
	}
	limit := limitOf(lines)
	for _, c := range d.Configs {
		var curves []stats.Curve
		for _, s := range c.Seeds {
			if len(s.Split.Round) > 0 && units.Finite(sample.Mean(s.Split.Mean)) {
				curves = append(curves, s.Split)
			}
		}
		if len(curves) == 0 {
			continue
		}
		p := newPlot(c.Label, "round", "external groups, J")
		p.Add(rules{})
		look := lookOf(0)
		mean := meanOver(curves).thinned(limit)
		p.Add(newBand(mean.x, mean.low, mean.high, faint(look.color, 0x20)))
		if len(curves) > 1 {
			for _, s := range curves {
				p.Add(lineOf{line(s, s.Mean, limit), draw.LineStyle{Color: faint(look.color, 0x90), Width: 0.4}})
			}
		}
		p.Add(lineOf{points(mean.x, mean.mean), draw.LineStyle{Color: look.color, Width: 1.4}})
		panels = append(panels, p)
	}
	if len(panels) == 0 {
		return nil
	}
	caption := "J of a round. Thick line: mean over nodes and seeds; thin lines: single seeds. Band: lowest to highest node, mean over seeds."
	return grid(panels, "The split over rounds", caption, nil)
}

// meanOver averages runs by round: their means over nodes, and their lowest and highest nodes. It covers the rounds
// that all runs have.
func meanOver(curves []stats.Curve) over {
	var out over
	if len(curves) == 0 {
		return out
	}
	at := make([]map[int]int, len(curves))
	for i, c := range curves {
		at[i] = map[int]int{}
		for k, round := range c.Round {
			at[i][round] = k
		}
	}
	for _, round := range curves[0].Round {
		var mean, low, high []float64
		for i, c := range curves {
			if k, ok := at[i][round]; ok {
				mean, low, high = append(mean, c.Mean[k]), append(low, c.Low[k]), append(high, c.High[k])
			}
		}
		if len(mean) == len(curves) {
			out.x = append(out.x, float64(round))
			out.mean, out.low, out.high = append(out.mean, sample.Mean(mean)), append(out.low, sample.Mean(low)), append(out.high, sample.Mean(high))
		}
	}
	return out
}
