package terminal

import (
	"fmt"
	"math"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/units"
)

// brailleDots are the bits of a braille sign's 2 × 4 dots, by row and column.
var brailleDots = [4][2]rune{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

// chart draws values from left to right as a line of dots, in height rows of width cells, from the least to the
// greatest of them. What is no finite number is a gap. Where there are more values than dots every value is drawn, over
// its neighbours: none that stands out is lost.
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
			y = max(0, min(c.height-1, y)) // of values so far apart that their distance is no number
		}
		if !pen {
			x0, y0 = x, y
		}
		c.line(x0, y0, x, y)
		x0, y0, pen = x, y, true
	}
	return c.rows()
}

// extent is the least and the greatest of the values that are numbers; 0 and 0 where there is none.
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

// canvas is a field of dots, row by row from the top.
type canvas struct {
	width, height int
	dots          []bool
}

// line sets the dots from one point to another, both within the canvas.
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

// axis is how wide the figures left of a chart are.
const axis = 6

// Plot draws values as chart does, in height lines of at most width cells, with their greatest and their least left of
// it, written by label.
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

// rewardChart is a chart of rewards with their least and greatest left of it and the rounds below, in height rows at
// least 2.
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
