package sample

import (
	"math"

	"gonum.org/v1/gonum/stat/combin"
)

// LeastPermutation returns the lowest p-value that PermutationTest can give for samples of these sizes: 0.1 for
// three against three, of whose 20 arrangements two are furthest apart. NaN if a sample has fewer than two values.
func LeastPermutation(a, b int) float64 {
	if a < 2 || b < 2 {
		return math.NaN()
	}
	extreme := 1.0
	if a == b { // the mirrored arrangement is as far apart
		extreme = 2
	}
	return max(extreme/math.Exp(combin.LogGeneralizedBinomial(float64(a+b), float64(a))), 1.0/(maxArrangements+1))
}

// Significant reports whether a p-value is below the level 1 - Confidence. P-values of exact tests are fractions: one
// that equals the level up to rounding is not below it.
func Significant(p float64) bool { return p < (1-Confidence)*(1-1e-9) }

// LeastSeeds is the least number of seeds per side that can decide.
const LeastSeeds = 3

// SeedsToDecide returns the least number of seeds per side with which one of that many tests can decide, however large
// the difference is: 4 for one test, 5 for two to six, at least LeastSeeds. The sides have a and b seeds, 0 if none: a
// side with fewer gets more until it has the returned number. It is MaxSeeds if no number decides. For example, a
// sampled test cannot decide one of a thousand tests.
func SeedsToDecide(tests, a, b int) int {
	for n := max(LeastSeeds, min(a, b)); ; n++ {
		x, y := max(a, n), max(b, n)
		if n >= MaxSeeds || Significant(LeastPermutation(x, y)*max(1, float64(tests))) {
			return n
		}
	}
}
