package figures

import (
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// Limits on points keep every figure below 300 kB for any length and number of runs. Extremes stay.
const (
	figurePoints = 14000 // sum over all lines of a figure
	linePoints   = 400   // per line
	fewestPoints = 8
)

// limitOf returns the maximum points per line for a number of lines.
func limitOf(lines int) int { return max(fewestPoints, min(linePoints, figurePoints/max(1, lines))) }

// over is a mean with its band.
type over struct {
	x               []float64
	mean, low, high []float64
}

// thinned drops points at the same places of all three series.
func (o over) thinned(points int) over {
	kept := sample.KeepExtremes([][]float64{o.mean, o.low, o.high}, points)
	return over{pick(o.x, kept), pick(o.mean, kept), pick(o.low, kept), pick(o.high, kept)}
}

func pick(values []float64, at []int) []float64 {
	out := make([]float64, len(at))
	for i, k := range at {
		out[i] = values[k]
	}
	return out
}

// points pairs x with y values.
func points(x, y []float64) []xy {
	out := make([]xy, len(x))
	for i := range x {
		out[i] = xy{x[i], y[i]}
	}
	return out
}

// line returns a curve's values over its rounds, thinned.
func line(c stats.Curve, values stats.Values, limit int) []xy {
	kept := sample.KeepExtremes([][]float64{values}, limit)
	out := make([]xy, len(kept))
	for i, k := range kept {
		out[i] = xy{float64(c.Round[k]), values[k]}
	}
	return out
}

// perSeed returns one value per seed, by seed: the mean over the runs that have a value. Runs of one seed repeat each
// other.
func (c Config) perSeed(value func(Seed) (float64, bool)) []float64 {
	var out []float64
	for _, group := range chunked(c.Seeds) {
		var values []float64
		for _, s := range group {
			if v, ok := value(s); ok {
				values = append(values, v)
			}
		}
		if mean := sample.Mean(values); units.Finite(mean) {
			out = append(out, mean)
		}
	}
	return out
}

// chunked groups runs by seed. The runs must be in the order of seeds.
func chunked(runs []Seed) (out [][]Seed) {
	for i, s := range runs {
		if i == 0 || s.Seed != runs[i-1].Seed {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], s)
	}
	return out
}

// withRewards reports whether any run finished a round.
func (d *Data) withRewards() bool {
	return slices.ContainsFunc(d.Configs, func(c Config) bool {
		return slices.ContainsFunc(c.Seeds, func(s Seed) bool { return len(s.Raw.Round) > 0 })
	})
}

// seedsText describes the number of seeds per configuration: "3 seeds", "2 to 3 seeds".
func (d *Data) seedsText() string {
	low, high := 0, 0
	for i, c := range d.Configs {
		n := len(chunked(c.Seeds))
		if i == 0 || n < low {
			low = n
		}
		high = max(high, n)
	}
	switch {
	case high == 1:
		return "1 seed"
	case low == high:
		return units.Plural(high, "seed")
	}
	return fmt.Sprintf("%d to %d seeds", low, high)
}
