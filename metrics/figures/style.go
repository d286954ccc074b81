package figures

import (
	"image/color"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// colors is the palette of Okabe and Ito, which is distinguishable with color blindness. It omits their yellow, which
// is too faint for a line.
var colors = []color.NRGBA{
	{0x00, 0x72, 0xB2, 0xFF}, {0xD5, 0x5E, 0x00, 0xFF}, {0x00, 0x9E, 0x73, 0xFF}, {0xCC, 0x79, 0xA7, 0xFF},
	{0xE6, 0x9F, 0x00, 0xFF}, {0x56, 0xB4, 0xE9, 0xFF}, {0x22, 0x22, 0x22, 0xFF}, {0x88, 0x88, 0x88, 0xFF},
}

// dashes distinguish lines in black and white, in points.
var dashes = [][]vg.Length{nil, {6, 2}, {2, 1.6}, {7, 2, 1.5, 2}, {10, 3}, {4, 1.5, 1, 1.5, 1, 1.5}, {1, 2}, {12, 2, 3, 2}, {3, 4}}

var glyphs = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{},
	draw.PlusGlyph{},
}

var (
	ink  = color.NRGBA{0x22, 0x22, 0x22, 0xFF}
	soft = color.NRGBA{0x66, 0x66, 0x66, 0xFF}
	hair = color.NRGBA{0xE4, 0xE4, 0xE4, 0xFF}
)

// look is the style of the i-th configuration, the same in every figure.
type look struct {
	color color.NRGBA
	dash  []vg.Length
	glyph draw.GlyphDrawer
}

func lookOf(i int) look {
	return look{colors[i%len(colors)], dashes[i%len(dashes)], glyphs[i%len(glyphs)]}
}

func (l look) line(width vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: l.color, Width: width, Dashes: l.dash}
}

func (l look) point(radius vg.Length) draw.GlyphStyle {
	return draw.GlyphStyle{Color: l.color, Radius: radius, Shape: l.glyph}
}

// faint returns a transparent color.
func faint(c color.NRGBA, alpha uint8) color.NRGBA {
	c.A = alpha
	return c
}

// textStyle returns sans-serif text of a size in points.
func textStyle(size vg.Length, c color.Color) text.Style {
	return text.Style{Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, Handler: plot.DefaultTextHandler}
}

func boldStyle(size vg.Length) text.Style {
	s := textStyle(size, ink)
	s.Font.Weight = xfont.WeightBold
	return s
}

// newPlot returns an empty plot in the style of the figures.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text, p.Title.TextStyle, p.Title.Padding = title, boldStyle(9), 4
	p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = draw.XCenter, draw.YTop
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		size := a.Label.TextStyle
		a.Label.TextStyle = textStyle(9, ink)
		a.Label.TextStyle.XAlign, a.Label.TextStyle.YAlign, a.Label.TextStyle.Rotation = size.XAlign, size.YAlign, size.Rotation
		size = a.Tick.Label
		a.Tick.Label = textStyle(8, ink)
		a.Tick.Label.XAlign, a.Tick.Label.YAlign, a.Tick.Label.Rotation = size.XAlign, size.YAlign, size.Rotation
		a.LineStyle.Color, a.Tick.LineStyle.Color = soft, soft
		a.Tick.Length = 4
		a.Padding = 2
	}
	return p
}
