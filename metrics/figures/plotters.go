package figures

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sapo-swarm/swarm/internal/units"
)

// xy is a point of a plot. A non-finite y is a gap.
type xy struct{ x, y float64 }

// lineOf connects points, except across gaps. It is not clipped, because the axes cover all points.
type lineOf struct {
	points []xy
	style  draw.LineStyle
}

// Plot implements plot.Plotter.
func (l lineOf) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, run := range runs(l.points) {
		var path []vg.Point
		for _, q := range run {
			path = append(path, vg.Point{X: x(q.x), Y: y(q.y)})
		}
		c.StrokeLines(l.style, path)
	}
}

// DataRange implements plot.DataRanger.
func (l lineOf) DataRange() (xmin, xmax, ymin, ymax float64) { return rangeOf(l.points) }

// bandOf fills the area between two lines over the same x.
type bandOf struct {
	low, high []xy
	fill      color.Color
}

// Plot implements plot.Plotter.
func (b bandOf) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	high := runs(b.high)
	for i, low := range runs(b.low) {
		var path []vg.Point
		for _, q := range low {
			path = append(path, vg.Point{X: x(q.x), Y: y(q.y)})
		}
		for k := len(high[i]) - 1; k >= 0; k-- {
			path = append(path, vg.Point{X: x(high[i][k].x), Y: y(high[i][k].y)})
		}
		c.FillPolygon(b.fill, path)
	}
}

// DataRange implements plot.DataRanger.
func (b bandOf) DataRange() (xmin, xmax, ymin, ymax float64) {
	return rangeOf(append(append([]xy{}, b.low...), b.high...))
}

// newBand returns the area between two series over the same x. It has a gap where either value is not finite.
func newBand(x, low, high []float64, fill color.Color) bandOf {
	b := bandOf{fill: fill}
	for i := range x {
		l, h := low[i], high[i]
		if !units.Finite(l) || !units.Finite(h) {
			l, h = math.NaN(), math.NaN()
		}
		b.low, b.high = append(b.low, xy{x[i], l}), append(b.high, xy{x[i], h})
	}
	return b
}

// marks are points, optionally with intervals.
type marks struct {
	points []mark
	style  draw.GlyphStyle
	line   draw.LineStyle // style of intervals
	across bool           // intervals are along x instead of y
}

type mark struct {
	xy
	low, high float64 // NaN: no interval
}

// Plot implements plot.Plotter.
func (m marks) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, q := range m.points {
		if !units.Finite(q.x) || !units.Finite(q.y) {
			continue
		}
		switch {
		case units.Finite(q.low) && units.Finite(q.high) && m.across:
			c.StrokeLine2(m.line, x(q.low), y(q.y), x(q.high), y(q.y))
		case units.Finite(q.low) && units.Finite(q.high):
			c.StrokeLine2(m.line, x(q.x), y(q.low), x(q.x), y(q.high))
		}
		c.DrawGlyphNoClip(m.style, vg.Point{X: x(q.x), Y: y(q.y)})
	}
}

// DataRange implements plot.DataRanger.
func (m marks) DataRange() (xmin, xmax, ymin, ymax float64) {
	var all []xy
	for _, q := range m.points {
		all = append(all, q.xy)
		for _, end := range []float64{q.low, q.high} {
			switch {
			case !units.Finite(end):
			case m.across:
				all = append(all, xy{end, q.y})
			default:
				all = append(all, xy{q.x, end})
			}
		}
	}
	return rangeOf(all)
}

// rules are thin lines across a plot at the labeled ticks of y, and optionally of x.
type rules struct{ x bool }

// Plot implements plot.Plotter.
func (r rules) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := draw.LineStyle{Color: hair, Width: 0.5}
	if r.x {
		for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
			if !t.IsMinor() {
				c.StrokeLine2(style, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
			}
		}
		return
	}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if !t.IsMinor() {
			c.StrokeLine2(style, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
		}
	}
}

// runs splits points at gaps.
func runs(points []xy) (out [][]xy) {
	from := 0
	for i := range len(points) + 1 {
		if i < len(points) && units.Finite(points[i].y) {
			continue
		}
		if i > from {
			out = append(out, points[from:i])
		}
		from = i + 1
	}
	return out
}

func rangeOf(points []xy) (xmin, xmax, ymin, ymax float64) {
	xmin, xmax, ymin, ymax = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, q := range points {
		if units.Finite(q.x) && units.Finite(q.y) {
			xmin, xmax, ymin, ymax = min(xmin, q.x), max(xmax, q.x), min(ymin, q.y), max(ymax, q.y)
		}
	}
	return xmin, xmax, ymin, ymax
}
