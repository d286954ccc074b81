package figures

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// evalSet returns the set of questions to compare: the last set that the first configuration with evaluations answered.
// Answers to other sets are left out.
func (d *Data) evalSet() string {
	for _, c := range d.Configs {
		for _, s := range c.Seeds {
			if rows := s.Evaluations.Rows; len(rows) > 0 {
				return rows[len(rows)-1].Set
			}
		}
	}
	return ""
}

// passOf returns pass@1 of an evaluation.
func passOf(passes []evaluation.Pass) (float64, bool) {
	for _, p := range passes {
		if p.K == 1 {
			return p.Value, true
		}
	}
	return 0, false
}

// finalPass returns a run's pass@1 in its last evaluation, if that uses the set.
func finalPass(set string) func(Seed) (float64, bool) {
	return func(s Seed) (float64, bool) {
		rows := s.Evaluations.Rows
		if len(rows) == 0 || rows[len(rows)-1].Set != set {
			return 0, false
		}
		return passOf(rows[len(rows)-1].Pass)
	}
}

// passAt returns a run's pass@1 after a number of rounds.
func passAt(set string, round int) func(Seed) (float64, bool) {
	return func(s Seed) (float64, bool) {
		for _, row := range slices.Backward(s.Evaluations.Rows) {
			if row.Round == round && row.Set == set {
				return passOf(row.Pass)
			}
		}
		return 0, false
	}
}

// intervalText describes the intervals, or says that there are none.
func (d *Data) intervalText() string {
	if text := d.seedsText(); text != "1 seed" {
		return "95 % interval over seeds, by Student's t (" + text + ")"
	}
	return "one seed: no interval"
}

// heldOutOverRounds draws pass@1 over the rounds that the weights were trained for.
func (d *Data) heldOutOverRounds() []byte {
	set := d.evalSet()
	if set == "" {
		return nil
	}
	p := newPlot("", d.axisLabel(), "held-out pass@1")
	p.Add(rules{})
	var legend []entry
	var bands, lines []plot.Plotter
	high := 0.0
	for i, c := range d.Configs {
		look := lookOf(i)
		legend = append(legend, entry{label: c.Label, look: look})
		rounds := map[int]bool{}
		for _, s := range c.Seeds {
			for _, row := range s.Evaluations.Rows {
				rounds[row.Round] = true
			}
		}
		var x, mean, low, high2 []float64
		for _, round := range slices.Sorted(maps.Keys(rounds)) {
			values := c.perSeed(passAt(set, round))
			if len(values) < len(chunked(c.Seeds)) { // covers fewer seeds than other rounds
				continue
			}
			m, l, h := sample.MeanInterval(values)
			x, mean, low, high2 = append(x, d.placeOf(c, round)), append(mean, m), append(low, max(0, l)), append(high2, min(1, h))
			for _, v := range append(values, h) {
				if units.Finite(v) {
					high = max(high, min(1, v))
				}
			}
		}
		bands = append(bands, newBand(x, low, high2, faint(look.color, 0x1C)))
		lines = append(lines, lineOf{points(x, mean), look.line(1.5)})
		var at []mark
		for k := range x {
			at = append(at, mark{xy{x[k], mean[k]}, math.NaN(), math.NaN()})
		}
		lines = append(lines, marks{points: at, style: look.point(2.2)})
	}
	p.Add(bands...)
	p.Add(lines...)
	settle(p)
	p.X.Min = 0
	fromZero(&p.Y, high)
	caption := "Share of correct completions of held-out questions, mean over nodes and seeds. Band: " + d.intervalText() + "."
	s := newSheet(width, 330, "Held-out pass@1 over "+d.overText(), caption, legend)
	p.Draw(s.free)
	return s.svg()
}

// placeOf returns the position on the axis of an evaluation after a number of rounds, as the mean over runs.
func (d *Data) placeOf(c Config, rounds int) float64 {
	if d.overText() == stats.PerRounds {
		return float64(rounds)
	}
	var places []float64
	for _, s := range c.Seeds {
		if place, ok := s.places[rounds-1]; ok || rounds == 0 {
			places = append(places, place)
		}
	}
	return sample.Mean(places)
}

// overText names the axis in titles.
func (d *Data) overText() string { return cmp.Or(d.Per.Name, stats.PerRounds) }

// rowHeight is the height of one configuration in heldOutFinal.
const rowHeight = vg.Length(26)

// heldOutFinal draws pass@1 of the last evaluation: each seed as a dot, and the mean with its interval.
func (d *Data) heldOutFinal() []byte {
	set := d.evalSet()
	if set == "" {
		return nil
	}
	p := newPlot("", "held-out pass@1 of the last evaluation", "")
	p.Add(rules{x: true})
	high := 0.0
	var names []string
	for i, c := range d.Configs {
		look, y := lookOf(i), float64(len(d.Configs)-1-i)
		values := c.perSeed(finalPass(set))
		var dots []mark
		for _, v := range values {
			dots = append(dots, mark{xy{v, y - 0.18}, math.NaN(), math.NaN()})
			high = max(high, v)
		}
		mean, low, upper := sample.MeanInterval(values)
		low, upper = max(0, low), min(1, upper)
		if units.Finite(upper) {
			high = max(high, upper)
		}
		p.Add(marks{points: dots, style: draw.GlyphStyle{Color: faint(look.color, 0xB0), Radius: 2.2, Shape: draw.CircleGlyph{}}})
		p.Add(marks{points: []mark{{xy{mean, y + 0.12}, low, upper}}, style: draw.GlyphStyle{Color: look.color, Radius: 3, Shape: draw.BoxGlyph{}},
			line: draw.LineStyle{Color: look.color, Width: 1.4}, across: true})
		name := fmt.Sprintf("%s (%s)", c.Label, units.Plural(len(values), "seed"))
		if len(values) == 0 {
			name = c.Label + " (none)"
		}
		names = append(names, name)
	}
	slices.Reverse(names)
	settle(p)
	nominalY(p, names)
	fromZero(&p.X, high)
	caption := "Share of correct completions of held-out questions, mean over nodes. Square: mean over seeds, with its " + d.intervalText() +
		"; dots: single seeds."
	s := newSheet(width, 100+rowHeight*vg.Length(len(d.Configs)), "Held-out pass@1 at the end", caption, nil)
	p.Draw(s.free)
	return s.svg()
}

// nominalY labels y = 0, 1, 2 … with names.
func nominalY(p *plot.Plot, names []string) {
	ticks := make(plot.ConstantTicks, len(names))
	for i, name := range names {
		ticks[i] = plot.Tick{Value: float64(i), Label: name}
	}
	p.Y.Tick.Marker, p.Y.Tick.Length, p.Y.LineStyle.Width = ticks, 0, 0
	p.Y.Min, p.Y.Max = -0.6, float64(len(names))-0.4
}
