package terminal

import (
	"fmt"
	"math"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/units"
)

// brailleDots are the bits of the 2 × 4 dots of a braille character, by row and column.
var brailleDots = [4][2]rune{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

// chart draws values from left to right as a line of dots, in height rows of width cells. It is scaled from the least
// to the greatest value. Non-finite values are gaps. If there are more values than dots, it draws every value over its
// neighbors, so that extremes stay visible.
func chart(values []float64, width, height int) []string {
	width, height = max(1, width), max(1, height)
	c := canvas{width: 2 * width, height: 4 * height, dots: make([]bool, 8*width*height)}
	low, high := extent(values)
	x0, y0, pen := 0, 0, false
	for i, v := range values {
		if !units.Finite(v) {
			pen = false
			continue
		}
		x, y := 0, c.height/2
		if len(values) > 1 {
			x = int(math.Round(float64(i) / float64(len(values)-1) * float64(c.width-1)))
		}
		if high > low {
			y = int(math.Round((high - v) / (high - low) * float64(c.height-1)))
			y = max(0, min(c.height-1, y)) // for values whose difference overflows
		}
		if !pen {
			x0, y0 = x, y
		}
		c.line(x0, y0, x, y)
		x0, y0, pen = x, y, true
	}
	return c.rows()
}

// extent returns the least and the greatest finite value, or 0 and 0 without any.
func extent(values []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if units.Finite(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		return 0, 0
	}
	return low, high
}

// canvas is a grid of dots, row by row from the top.
type canvas struct {
	width, height int
	dots          []bool
}

// line sets the dots between two points, which must be within the canvas.
func (c *canvas) line(x0, y0, x1, y1 int) {
	steps := max(abs(x1-x0), abs(y1-y0))
	for i := range steps + 1 {
		x, y := x0, y0
		if steps > 0 {
			x = x0 + int(math.Round(float64(i*(x1-x0))/float64(steps)))
			y = y0 + int(math.Round(float64(i*(y1-y0))/float64(steps)))
		}
		c.dots[y*c.width+x] = true
	}
}

func abs(n int) int { return max(n, -n) }

func (c *canvas) rows() []string {
	out := make([]string, 0, c.height/4)
	for top := 0; top < c.height; top += 4 {
		var b strings.Builder
		for left := 0; left < c.width; left += 2 {
			sign := rune(charset.Braille)
			for row, bits := range brailleDots {
				for column, bit := range bits {
					if c.dots[(top+row)*c.width+left+column] {
						sign |= bit
					}
				}
			}
			b.WriteRune(sign)
		}
		out = append(out, b.String())
	}
	return out
}

// axis is the width of the labels left of a chart.
const axis = 6

// Plot draws values as chart does, in height lines of at most width cells, with the greatest and least value left of
// it, formatted by label.
func Plot(values []float64, width, height int, label func(float64) string) []string {
	low, high := extent(values)
	top, bottom := label(high), label(low)
	beside := max(ansi.StringWidth(top), ansi.StringWidth(bottom))
	rows := chart(values, width-beside-1, height)
	for i, line := range rows {
		text := ""
		switch i {
		case 0:
			text = top
		case len(rows) - 1:
			text = bottom
		}
		rows[i] = cell(text, beside, false) + " " + line
	}
	return rows
}

// rewardChart draws a chart of rewards with the least and greatest value on the left and the rounds below, in height
// rows. height must be at least 2.
func rewardChart(st styles, first int, rewards []float64, width, height int) []string {
	low, high := extent(rewards)
	rows := chart(rewards, width-axis-1, height-1)
	for i, line := range rows {
		label := ""
		switch i {
		case 0:
			label = fmt.Sprintf("%.3f", high)
		case len(rows) - 1:
			label = fmt.Sprintf("%.3f", low)
		}
		rows[i] = st.faint.Render(cell(label, axis, false)) + " " + st.good.Render(line)
	}
	caption := fmt.Sprintf("reward, rounds %d–%d", first+1, first+len(rewards))
	return append(rows, st.faint.Render(strings.Repeat(" ", axis+1)+caption))
}
