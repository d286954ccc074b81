package figures

import (
	"cmp"
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sapo-swarm/swarm/internal/units"
)

const (
	width       = vg.Length(540)
	panelHeight = vg.Length(150)
)

// rewardsByNode draws the raw reward of each node by round. It has one panel per configuration, for its first seed. It
// corresponds to the paper's first figure.
func (d *Data) rewardsByNode() []byte {
	if !d.withRewards() {
		return nil
	}
	lines := 0
	for _, c := range d.Configs {
		lines += 1 + len(c.Seeds[0].Raw.Nodes)
	}
	limit := limitOf(lines)
	var panels []*plot.Plot
	for _, c := range d.Configs {
		raw := c.Seeds[0].Raw
		p := newPlot(fmt.Sprintf("%s (seed %d)", c.Label, c.Seeds[0].Seed), "round", "reward")
		p.Add(rules{})
		for i, n := range raw.Nodes {
			style := draw.LineStyle{Color: faint(lookOf(i).color, 0xB0), Width: 0.5}
			p.Add(lineOf{line(raw, n.Values, limit), style})
		}
		p.Add(lineOf{line(raw, raw.Mean, limit), draw.LineStyle{Color: ink, Width: 0.9}})
		panels = append(panels, p)
	}
	caption := "Raw reward of a round. Colored lines: single nodes; black line: mean over nodes. All panels have the same scale."
	return grid(panels, "Reward of each node by round", caption, nil)
}

// rewardsSmoothed draws the swarm's smoothed reward against the axis, one line per configuration. It corresponds to the
// paper's second figure.
func (d *Data) rewardsSmoothed() []byte {
	if !d.withRewards() {
		return nil
	}
	p := newPlot("", d.axisLabel(), "reward")
	p.Add(rules{})
	var legend []entry
	var bands, faints, means []plot.Plotter
	several := false
	high, limit := 0.0, limitOf(d.smoothLines())
	for i, c := range d.Configs {
		look := lookOf(i)
		legend = append(legend, entry{label: c.Label, look: look})
		several = several || c.Curve.Seeds > 1
		mean := over{c.Curve.X, c.Curve.Mean, c.Curve.Low, c.Curve.High}.thinned(limit)
		band := newBand(mean.x, mean.low, mean.high, faint(look.color, 0x20))
		line := lineOf{points(mean.x, mean.mean), look.line(1.5)}
		bands, means = append(bands, band), append(means, line)
		_, _, _, top := band.DataRange()
		_, _, _, most := line.DataRange()
		high = max(high, top, most)
		if d.Single && len(c.Curve.Single) > 1 {
			for _, l := range c.Curve.Single {
				one := over{x: l.X, mean: l.Mean, low: l.Mean, high: l.Mean}.thinned(limit)
				line := lineOf{points(one.x, one.mean), draw.LineStyle{Color: faint(look.color, 0x90), Width: 0.4}}
				faints = append(faints, line)
				_, _, _, most := line.DataRange()
				high = max(high, most)
			}
		}
	}
	p.Add(bands...)
	p.Add(faints...)
	p.Add(means...)
	settle(p)
	fromZero(&p.Y, high)
	caption := fmt.Sprintf("Reward, mean over nodes and seeds, moving average over %s of each node.", units.Plural(d.Window, "round"))
	if several {
		caption += " Band: " + d.intervalText() + "."
	} else {
		caption += " One seed: the variation by chance is unknown."
	}
	if len(faints) > 0 {
		caption += " Thin lines: single runs."
	}
	s := newSheet(width, 330, "Reward of the swarm, smoothed", caption, legend)
	p.Draw(s.free)
	return s.svg()
}

// axisLabel returns the label of the x axis of curves.
func (d *Data) axisLabel() string {
	currency := ""
	for _, c := range d.Configs {
		currency = cmp.Or(currency, c.Curve.Currency)
	}
	return cmp.Or(d.Per.In(currency), "round")
}

// smoothLines counts the lines of means, edges of bands and runs.
func (d *Data) smoothLines() int {
	lines := 0
	for _, c := range d.Configs {
		lines += 3
		if d.Single {
			lines += len(c.Seeds)
		}
	}
	return lines
}

// settle sets the ticks of axes, and a default range if there are no data.
func settle(p *plot.Plot) {
	p.X.Tick.Marker, p.Y.Tick.Marker = fewTicks(6), fewTicks(5)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		if math.IsInf(a.Min, 0) || math.IsInf(a.Max, 0) {
			a.Min, a.Max = 0, 1
		}
	}
}

// grid draws panels side by side on a common scale, at most three per row.
func grid(panels []*plot.Plot, title, caption string, legend []entry) []byte {
	columns := min(len(panels), 2)
	if len(panels) > 4 {
		columns = 3
	}
	rows := (len(panels) + columns - 1) / columns
	right, low, high := 0.0, 0.0, 0.0
	for _, p := range panels {
		settle(p)
		right, low, high = max(right, p.X.Max), min(low, p.Y.Min), max(high, p.Y.Max)
	}
	cells := make([][]*plot.Plot, rows)
	for i := range cells {
		cells[i] = make([]*plot.Plot, columns)
	}
	for i, p := range panels {
		p.X.Tick.Marker, p.Y.Tick.Marker = fewTicks(4), fewTicks(4)
		p.X.Min, p.X.Max, p.Y.Min = 0, right, low
		fromZero(&p.Y, high)
		if i%columns > 0 {
			p.Y.Label.Text = ""
		}
		if i+columns < len(panels) {
			p.X.Label.Text = ""
		}
		cells[i/columns][i%columns] = p
	}
	s := newSheet(width, 90+panelHeight*vg.Length(rows), title, caption, legend)
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 12, PadY: 10}
	canvases := plot.Align(cells, tiles, s.free)
	for i, p := range panels {
		p.Draw(canvases[i/columns][i%columns])
	}
	return s.svg()
}
