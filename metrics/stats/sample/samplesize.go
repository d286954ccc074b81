package sample

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/stat"

	"github.com/sapo-swarm/swarm/internal/units"
)

// PooledDeviation returns the standard deviation within groups, pooled over them by degrees of freedom, and the number
// of degrees of freedom. A group of fewer than two values adds nothing. The deviation is NaN without any degree of
// freedom.
func PooledDeviation(groups ...[]float64) (deviation float64, freedom int) {
	sum := 0.0
	for _, g := range groups {
		if len(g) < 2 {
			continue
		}
		sum += stat.Variance(g, nil) * float64(len(g)-1)
		freedom += len(g) - 1
	}
	if freedom == 0 {
		return math.NaN(), 0
	}
	return math.Sqrt(sum / float64(freedom)), freedom
}

// SampleSize returns the fewest seeds a side with which a two-sided t-test at a level has a chance of 0.8 of seeing a
// difference, if the values of both sides have this standard deviation. ok is false if difference or deviation is not
// above 0, or if more than MaxSeeds are needed.
func SampleSize(difference, deviation, level float64) (n int, ok bool) {
	if !(difference > 0) || !(deviation > 0) || !units.Finite(difference) || !units.Finite(deviation) {
		return 0, false
	}
	n = 2 + sort.Search(MaxSeeds-1, func(i int) bool {
		n := float64(2 + i)
		return Power(difference/(deviation*math.Sqrt(2/n)), 2*(n-1), level) >= power
	})
	return n, n <= MaxSeeds
}
