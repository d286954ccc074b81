package figures

import (
	"bytes"
	"html"
	"image/color"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// sheet is a figure being drawn: title, caption and legend, and below them the area for plots.
type sheet struct {
	title  string
	canvas *vgsvg.Canvas
	free   draw.Canvas
}

// entry is one line of a legend.
type entry struct {
	label string
	look  look
	point bool // draw a glyph instead of a line
}

const margin = vg.Length(10)

func newSheet(width, height vg.Length, title, caption string, legend []entry) *sheet {
	s := &sheet{title: title, canvas: vgsvg.New(width, height)}
	all := draw.New(s.canvas)
	all.FillPolygon(color.White, []vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}})
	s.free = draw.Crop(all, margin, -margin, margin, -margin)
	s.write(boldStyle(11), title)
	s.drop(3)
	for _, line := range wrapped(textStyle(8, soft), caption, s.free.Size().X) {
		s.write(textStyle(8, soft), line)
	}
	s.drop(5)
	s.legend(legend)
	s.drop(5)
	return s
}

// drop removes a height from the top of the free area.
func (s *sheet) drop(height vg.Length) { s.free = draw.Crop(s.free, 0, 0, 0, -height) }

// write draws a line of text at the top of the free area.
func (s *sheet) write(style text.Style, line string) {
	style.YAlign = draw.YTop
	s.free.FillText(style, vg.Point{X: s.free.Min.X, Y: s.free.Max.Y}, line)
	s.drop(style.Font.Size * 1.25)
}

// legend draws the entries from left to right, in as many lines as needed.
func (s *sheet) legend(entries []entry) {
	const gap, between, height = vg.Length(4), vg.Length(14), vg.Length(13)
	style := textStyle(8.5, ink)
	style.YAlign = draw.YCenter
	x := s.free.Min.X
	for i, e := range entries {
		swatch := vg.Length(26)
		if e.point {
			swatch = 8
		}
		width := swatch + gap + style.Width(e.label)
		if i > 0 && x+width > s.free.Max.X {
			s.drop(height)
			x = s.free.Min.X
		}
		y := s.free.Max.Y - height/2
		if e.point {
			s.free.DrawGlyphNoClip(e.look.point(3), vg.Point{X: x + swatch/2, Y: y})
		} else {
			s.free.StrokeLine2(e.look.line(1.5), x, y, x+swatch, y)
		}
		s.free.FillText(style, vg.Point{X: x + swatch + gap, Y: y}, e.label)
		x += width + between
	}
	if len(entries) > 0 {
		s.drop(height)
	}
}

// wrapped breaks text at spaces into lines of at most that width.
func wrapped(style text.Style, txt string, width vg.Length) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(txt) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && style.Width(longer) > width {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	return append(lines, line)
}

// svg returns the finished drawing.
func (s *sheet) svg() []byte {
	var b bytes.Buffer
	if _, err := s.canvas.WriteTo(&b); err != nil {
		panic(err) // writes to memory do not fail
	}
	out := lettered(b.Bytes())
	at := bytes.Index(out, []byte("<g "))
	title := "<title>" + html.EscapeString(s.title) + "</title>\n"
	return append(append(append(make([]byte, 0, len(out)+len(title)), out[:at]...), title...), out[at:]...)
}
