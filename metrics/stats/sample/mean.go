// Package sample computes sample statistics: means, quantiles, intervals, two-sample tests and their power. It is pure
// and works on plain slices. docs/METRICS.md has the formulas.
package sample

import (
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Mean returns the mean of the finite values of xs, or NaN if there are none.
func Mean(xs []float64) float64 {
	sum, n := 0.0, 0
	for _, x := range xs {
		if units.Finite(x) {
			sum += x
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// Median returns the middle value, or the mean of the two middle values if their number is even. It is NaN without
// values.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Quantile returns the q-quantile, q in 0..1, of ascending values. It interpolates linearly (Hyndman and Fan's type 7,
// NumPy's default). It is NaN without values.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := min(1, max(0, q)) * float64(len(sorted)-1)
	low := int(at)
	if low == len(sorted)-1 {
		return sorted[low]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}
