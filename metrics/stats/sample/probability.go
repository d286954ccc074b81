package sample

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// ProbabilityOfImprovement returns the probability that a value drawn from a exceeds one drawn from b, with ties
// counted half. It is the Mann-Whitney statistic divided by the number of pairs (Agarwal et al. 2021,
// arXiv:2108.13264). It is NaN if a or b is empty.
func ProbabilityOfImprovement(a, b []float64) float64 {
	wins := 0.0
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				wins++
			case x == y:
				wins += 0.5
			}
		}
	}
	return wins / float64(len(a)*len(b))
}

// ProbabilityInterval returns the interval of ProbabilityOfImprovement: the probabilities that are less than 1.96 of
// their standard errors from the observed one (method 5 of Newcombe 2006). Unlike a bootstrap's, it has a width even if
// each value of one side is above each of the other. It is NaN if a or b has fewer than two values.
func ProbabilityInterval(a, b []float64) (low, high float64) {
	if len(a) < 2 || len(b) < 2 {
		return math.NaN(), math.NaN()
	}
	m, n := float64(len(a)), float64(len(b))
	seen, z := ProbabilityOfImprovement(a, b), distuv.UnitNormal.Quantile(1-(1-Confidence)/2)
	within := func(p float64) bool {
		variance := p * (1 - p) / (m * n) * (1 + ((m+n)/2-1)*((1-p)/(2-p)+p/(1+p)))
		return math.Abs(seen-p) <= z*math.Sqrt(variance)
	}
	end := func(out float64) float64 {
		in := seen
		for range 50 {
			if middle := (in + out) / 2; within(middle) {
				in = middle
			} else {
				out = middle
			}
		}
		return in
	}
	return end(0), end(1)
}
