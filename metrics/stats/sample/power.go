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
	power    = 0.8  // the chance wanted of seeing a difference that is there
	MaxSeeds = 1000 // a side that SeedsNeeded looks at: beyond that nobody trains
)

// Power returns the chance that a two-sided t-test at a level sees a difference of so many standard errors: of the
// noncentral t-distribution with that noncentrality, what lies beyond the critical values, by integrating over the
// standard deviation's distribution.
func Power(noncentrality, freedom, level float64) float64 {
	critical := Student(freedom).Quantile(1 - level/2)
	gamma, _ := math.Lgamma(freedom / 2)
	scale := math.Ln2 + freedom/2*math.Log(freedom/2) - gamma
	beyond := func(s float64) float64 { // s: the estimated standard deviation over the true one
		density := math.Exp(scale + (freedom-1)*math.Log(s) - freedom/2*s*s)
		return density * (distuv.UnitNormal.CDF(noncentrality-critical*s) + distuv.UnitNormal.CDF(-noncentrality-critical*s))
	}
	const points = 100 // of the Gauss-Legendre rule
	width := 8 / math.Sqrt(2*freedom)
	return quad.Fixed(beyond, max(0, 1-width), 1+width, points, nil, 0)
}

// SeedsNeeded returns the fewest seeds a side with which Welch's test at a level has a chance of 0.8 of seeing the
// difference of a and b, were means and variances as seen. ok is false where nothing can be said: fewer than two values
// a side, none that varies, no difference, or more than 1000.
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
	freedom := 1 / (sa*sa + sb*sb) // Satterthwaite's, a seed less one
	n = 2 + sort.Search(MaxSeeds-1, func(i int) bool {
		n := float64(2 + i)
		return Power(difference/math.Sqrt((va+vb)/n), freedom*(n-1), level) >= power
	})
	return n, n <= MaxSeeds
}

// Holm returns p-values corrected for that there are several (Holm 1979): the chance of one false verdict among all
// stays below the level. What is NaN is no test and stays NaN.
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
