package figures

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"

	"github.com/sapo-swarm/swarm/internal/units"
)

// fewTicks labels about that many round numbers of an axis: multiples of 1, 2 or 5 times a power of ten.
type fewTicks int

// Ticks implements plot.Ticker.
func (n fewTicks) Ticks(low, high float64) []plot.Tick {
	if !(high > low) {
		return []plot.Tick{{Value: low, Label: strconv.FormatFloat(low, 'g', 3, 64)}}
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/float64(n))))
	for _, factor := range []float64{2, 2.5, 2} {
		if (high-low)/step > float64(n)+0.5 {
			step *= factor
		}
	}
	digits := max(0, int(-math.Floor(math.Log10(step)+1e-9)))
	var ticks []plot.Tick
	// Adding 0 turns -0 into 0.
	for k := 0 + math.Ceil(low/step-1e-9); k*step <= high+step*1e-9; k++ {
		ticks = append(ticks, plot.Tick{Value: k * step, Label: strconv.FormatFloat(k*step, 'f', digits, 64)})
	}
	return ticks
}

// fromZero starts an axis at 0, or lower if there are negative values, and adds space at the top.
func fromZero(a *plot.Axis, high float64) {
	a.Min = min(0, a.Min)
	a.Max = 1
	if high > a.Min && units.Finite(high) {
		a.Max = high + 0.05*(high-a.Min)
	}
}
