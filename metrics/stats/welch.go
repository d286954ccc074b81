package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Confidence is the level of every interval.
const Confidence = 0.95

// Difference is a difference of two means with its interval and the chance of one so large were there none.
type Difference struct {
	Mean, Low, High, P float64
}

// Welch returns mean(a) - mean(b), its interval and two-sided p-value by Welch's unequal-variances t-test (Welch 1947; degrees of freedom
// by Satterthwaite). Low, High and P are NaN where a or b has fewer than two values, or neither varies.
func Welch(a, b []float64) Difference {
	nan := math.NaN()
	d := Difference{Mean: Mean(a) - Mean(b), Low: nan, High: nan, P: nan}
	if len(a) < 2 || len(b) < 2 {
		return d
	}
	va, vb := stat.Variance(a, nil)/float64(len(a)), stat.Variance(b, nil)/float64(len(b))
	if !(va+vb > 0) {
		return d
	}
	freedom := (va + vb) * (va + vb) / (va*va/float64(len(a)-1) + vb*vb/float64(len(b)-1))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}
	err := math.Sqrt(va + vb)
	half := t.Quantile(1-(1-Confidence)/2) * err
	d.Low, d.High = d.Mean-half, d.Mean+half
	d.P = 2 * t.Survival(math.Abs(d.Mean)/err)
	return d
}
