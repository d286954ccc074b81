package figures

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// splitPath draws how many external groups nodes took of each round's budget, where they chose: a panel for each configuration.
func (d *Data) splitPath() []byte {
	var panels []*plot.Plot
	limit := limitOf(d.smoothLines())
	for _, c := range d.Configs {
		var curves []stats.Curve
		for _, s := range c.Seeds {
			if len(s.Split.Round) > 0 && units.Finite(stats.Mean(s.Split.Mean)) {
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
		p.Add(newBand(mean.round, mean.low, mean.high, faint(look.color, 0x20)))
		if len(curves) > 1 {
			for _, s := range curves {
				p.Add(lineOf{line(s, s.Mean, limit), draw.LineStyle{Color: faint(look.color, 0x90), Width: 0.4}})
			}
		}
		p.Add(lineOf{points(mean.round, mean.mean), draw.LineStyle{Color: look.color, Width: 1.4}})
		panels = append(panels, p)
	}
	if len(panels) == 0 {
		return nil
	}
	caption := "J of a round, mean over nodes and seeds (thick; thin: each seed). Band: from the lowest to the highest node, mean over seeds."
	return grid(panels, "The path of the split", caption, nil)
}
