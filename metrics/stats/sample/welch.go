package sample

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Confidence is the level of all intervals.
const Confidence = 0.95

// Difference is a difference of two means with its confidence interval and p-value.
type Difference struct {
	Mean, Low, High, P float64
}

// Welch returns mean(a) - mean(b) with its interval and two-sided p-value by Welch's unequal-variances t-test (Welch
// 1947, degrees of freedom by Satterthwaite). Low, High and P are NaN if a or b has fewer than two values, if neither
// side varies, or if the variance is not finite.
func Welch(a, b []float64) Difference {
	nan := math.NaN()
	d := Difference{Mean: Mean(a) - Mean(b), Low: nan, High: nan, P: nan}
	err, freedom, ok := welchError(a, b)
	if !ok {
		return d
	}
	t := Student(freedom)
	half := t.Quantile(1-(1-Confidence)/2) * err
	d.Low, d.High = d.Mean-half, d.Mean+half
	d.P = 2 * t.Survival(math.Abs(d.Mean)/err)
	return d
}

// welchError returns the standard error of mean(a) - mean(b) and its degrees of freedom. ok is false where Welch has no
// interval.
func welchError(a, b []float64) (err, freedom float64, ok bool) {
	if len(a) < 2 || len(b) < 2 {
		return 0, 0, false
	}
	va, vb := stat.Variance(a, nil)/float64(len(a)), stat.Variance(b, nil)/float64(len(b))
	if !(va+vb > 0) || !units.Finite(va+vb) {
		return 0, 0, false
	}
	sa, sb := va/(va+vb), vb/(va+vb) // squared shares neither overflow nor underflow, unlike squared variances
	return math.Sqrt(va + vb), 1 / (sa*sa/float64(len(a)-1) + sb*sb/float64(len(b)-1)), true
}

// MeanInterval returns the mean of xs and its interval by Student's t. The interval is NaN with fewer than two values.
func MeanInterval(xs []float64) (mean, low, high float64) {
	mean, low, high = Mean(xs), math.NaN(), math.NaN()
	if n := float64(len(xs)); n >= 2 {
		half := Student(n-1).Quantile(1-(1-Confidence)/2) * stat.StdDev(xs, nil) / math.Sqrt(n)
		low, high = mean-half, mean+half
	}
	return mean, low, high
}

// Student returns the t-distribution with the given degrees of freedom.
func Student(freedom float64) distuv.StudentsT { return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom} }
