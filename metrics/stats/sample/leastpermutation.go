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
