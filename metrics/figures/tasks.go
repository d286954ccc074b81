package figures

import (
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// taskPass returns a run's pass@1 of a task in its last evaluation, if that uses the set.
func taskPass(set, task string) func(Seed) (float64, bool) {
	return func(s Seed) (float64, bool) {
		if _, ok := finalPass(set)(s); !ok {
			return 0, false
		}
		for _, t := range s.Evaluations.Tasks {
			if t.Task == task {
				return passOf(t.Pass)
			}
		}
		return 0, false
	}
}

// heldOutByTask draws pass@1 of the last evaluation by task, one mark per configuration.
func (d *Data) heldOutByTask() []byte {
	set := d.evalSet()
	if set == "" {
		return nil
	}
	tasks := d.tasks(set)
	p := newPlot("", "held-out pass@1 of the last evaluation", "")
	p.Add(stripes(len(tasks)), rules{x: true})
	var legend []entry
	high := 0.0
	for i, c := range d.Configs {
		look := lookOf(i)
		legend = append(legend, entry{label: c.Label, look: look, point: true})
		shift := 0.0
		if n := len(d.Configs); n > 1 {
			shift = 0.35 - 0.7*float64(i)/float64(n-1)
		}
		var at []mark
		for k, task := range tasks {
			values := c.perSeed(taskPass(set, task))
			mean, low, upper := sample.MeanInterval(values)
			low, upper = max(0, low), min(1, upper)
			at = append(at, mark{xy{mean, float64(len(tasks)-1-k) + shift}, low, upper})
			for _, v := range []float64{mean, upper} {
				if units.Finite(v) {
					high = max(high, v)
				}
			}
		}
		p.Add(marks{points: at, style: look.point(2.6), line: draw.LineStyle{Color: look.color, Width: 0.8}, across: true})
	}
	slices.Reverse(tasks)
	settle(p)
	nominalY(p, tasks)
	fromZero(&p.X, high)
	caption := "Share of correct completions of a task's held-out questions, mean over nodes and seeds. Lines: " + d.intervalText() + "."
	each := rowHeight * vg.Length(max(1, float64(len(d.Configs))/4))
	s := newSheet(width, 110+each*vg.Length(len(tasks)), "Held-out pass@1 by task, at the end", caption, legend)
	p.Draw(s.free)
	return s.svg()
}

// tasks returns the tasks of the last evaluations, by name.
func (d *Data) tasks(set string) []string {
	names := map[string]bool{}
	for _, c := range d.Configs {
		for _, s := range c.Seeds {
			if _, ok := finalPass(set)(s); !ok {
				continue
			}
			for _, t := range s.Evaluations.Tasks {
				names[t.Task] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// stripes shades every second row, for a number of rows.
type stripes int

// Plot implements plot.Plotter.
func (n stripes) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for i := 1; i < int(n); i += 2 {
		low, high := y(math.Max(p.Y.Min, float64(i)-0.5)), y(math.Min(p.Y.Max, float64(i)+0.5))
		c.FillPolygon(faint(soft, 0x14), []vg.Point{{X: c.Min.X, Y: low}, {X: c.Max.X, Y: low}, {X: c.Max.X, Y: high}, {X: c.Min.X, Y: high}})
	}
}
