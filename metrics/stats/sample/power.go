package sample

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Bounds of SeedsNeeded.
const (
	power    = 0.8  // wanted probability of detecting an existing difference
	MaxSeeds = 1000 // seeds per side, upper bound of SeedsNeeded
)

// Power returns the probability that a two-sided t-test at a level detects a difference. noncentrality is that
// difference in standard errors. This is the mass of the noncentral t-distribution beyond the critical values,
// integrated over the distribution of the standard deviation.
func Power(noncentrality, freedom, level float64) float64 {
	critical := Student(freedom).Quantile(1 - level/2)
	gamma, _ := math.Lgamma(freedom / 2)
	scale := math.Ln2 + freedom/2*math.Log(freedom/2) - gamma
	beyond := func(s float64) float64 { // s: estimated over true standard deviation
		density := math.Exp(scale + (freedom-1)*math.Log(s) - freedom/2*s*s)
		return density * (distuv.UnitNormal.CDF(noncentrality-critical*s) + distuv.UnitNormal.CDF(-noncentrality-critical*s))
	}
	const points = 100 // points of the Gauss-Legendre rule
	width := 8 / math.Sqrt(2*freedom)
	return quad.Fixed(beyond, max(0, 1-width), 1+width, points, nil, 0)
}

// SeedsNeeded returns the fewest seeds per side for which Welch's test at a level has a power of 0.8. It assumes the
// means and variances of a and b. ok is false if a side has fewer than two values, no value varies, the means are
// equal, or more than 1000 seeds would be needed.
func SeedsNeeded(a, b []float64, level float64) (n int, ok bool) {
	if len(a) < 2 || len(b) < 2 {
		return 0, false
	}
	va, vb := stat.Variance(a, nil), stat.Variance(b, nil)
	difference := math.Abs(Mean(a) - Mean(b))
	if !(va+vb > 0) || !units.Finite(va+vb) || !(difference > 0) || !units.Finite(difference) {
		return 0, false
	}
	sa, sb := va/(va+vb), vb/(va+vb)
	freedom := 1 / (sa*sa + sb*sb) // Satterthwaite's degrees of freedom, per (seeds - 1)
	n = 2 + sort.Search(MaxSeeds-1, func(i int) bool {
		n := float64(2 + i)
		return Power(difference/math.Sqrt((va+vb)/n), freedom*(n-1), level) >= power
	})
	return n, n <= MaxSeeds
}

// Holm returns p-values corrected for multiple comparisons (Holm 1979): the probability of any false verdict stays
// below the level. NaN values are not counted as tests and stay NaN.
func Holm(ps []float64) []float64 {
	out := make([]float64, len(ps))
	var order []int
	for i, p := range ps {
		out[i] = math.NaN()
		if units.Finite(p) {
			order = append(order, i)
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return ps[order[i]] < ps[order[j]] })
	highest := 0.0
	for rank, i := range order {
		highest = max(highest, min(1, ps[i]*float64(len(order)-rank)))
		out[i] = highest
	}
	return out
}
