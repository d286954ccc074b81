package sample

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
)

// ImprovementInterval returns the interval of mean(a) / mean(b) - 1 by Fieller's theorem: the ratios r for which
// Welch's test does not reject mean(a) - r·mean(b) = 0. It contains 0 if and only if Welch's interval of the difference
// does. The interval is NaN where Welch has none, where it would be unbounded because mean(b) is not clearly above 0,
// and where Welch rejects r = 1 between ratios that it does not reject: with two values on a side, the degrees of
// freedom change that much with r.
func ImprovementInterval(a, b []float64) (low, high float64) {
	if _, least, _ := MeanInterval(b); !(least > 0) || !units.Finite(Welch(a, b).P) {
		return math.NaN(), math.NaN()
	}
	within := func(r float64) bool { return Welch(a, times(b, r)).P >= 1-Confidence }
	if low, high = ratiosWithin(Mean(a)/Mean(b), within); within(1) != (low <= 0 && 0 <= high) {
		return math.NaN(), math.NaN()
	}
	return low, high
}

// ratiosWithin returns the lowest and the highest ratio around a ratio that are within an interval, less 1. They are
// NaN if it is unbounded.
func ratiosWithin(ratio float64, within func(float64) bool) (low, high float64) {
	end := func(step float64) float64 {
		for doubled := 0; within(ratio + step); step *= 2 {
			if doubled++; doubled > 60 {
				return math.NaN()
			}
		}
		in, out := ratio, ratio+step
		for range 40 {
			if middle := (in + out) / 2; within(middle) {
				in = middle
			} else {
				out = middle
			}
		}
		return in - 1
	}
	step := max(math.Abs(ratio), 1e-3)
	if low, high = end(-step), end(step); math.IsNaN(low) || math.IsNaN(high) {
		return math.NaN(), math.NaN()
	}
	return low, high
}

func times(xs []float64, factor float64) []float64 {
	out := slices.Clone(xs)
	for i := range out {
		out[i] *= factor
	}
	return out
}

// Improvement returns the interval of mean(a) / mean(b) - 1 over seeds and questions, as Fieller's theorem has it over
// seeds: the ratios r for which the interval of mean(a) - r·mean(b), formed like that of Difference, contains 0. A
// resample has the same questions in both means. The interval is NaN if a side has fewer than two seeds, and where it
// would be unbounded.
func (c *Crossed) Improvement(a, b [][]float64) (low, high float64) {
	if len(a) < 2 || len(b) < 2 {
		return math.NaN(), math.NaN()
	}
	ofA, ofB := means(a), means(b)
	if !(Mean(ofB) > 0) {
		return math.NaN(), math.NaN()
	}
	meansA, meansB := c.resampled(a), c.resampled(b)
	// Bailey's polar method (1994) makes a draw from Student's t with any degrees of freedom of the same two numbers.
	random := rand.New(rand.NewPCG(0xb007, ratioStream)) //nolint:gosec // a fixed seed: the same interval each time
	logs, cosines := make([]float64, Resamples), make([]float64, Resamples)
	for i := range logs {
		logs[i], cosines[i] = math.Log(1-random.Float64()), math.Cos(2*math.Pi*random.Float64())
	}
	return ratiosWithin(Mean(ofA)/Mean(ofB), func(r float64) bool {
		err, freedom, vary := welchError(ofA, times(ofB, r))
		below := 0
		for i, x := range meansA {
			if x -= r * meansB[i]; vary {
				x += err * math.Sqrt(freedom*math.Expm1(-2/freedom*logs[i])) * cosines[i]
			}
			if x < 0 {
				below++
			}
		}
		return below >= Resamples*(1-Confidence)/2 && below <= Resamples*(1+Confidence)/2
	})
}

// resampled returns a side's mean over its seeds in each resample of the questions.
func (c *Crossed) resampled(seeds [][]float64) []float64 {
	weighted := slices.Clone(c.weights)
	for question := range weighted {
		weighted[question] *= meanOf(seeds, question)
	}
	out := make([]float64, 0, Resamples)
	for counts := range slices.Chunk(c.counts, len(weighted)) {
		sum := 0.0
		for question, n := range counts {
			sum += float64(n) * weighted[question]
		}
		out = append(out, sum)
	}
	return out
}
