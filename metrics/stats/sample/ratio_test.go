package sample

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// At each end of the interval Welch's test of mean(a) - (1 + end)·mean(b) has p = 0.05.
func TestImprovementIntervalIsFiellers(t *testing.T) {
	a, b := []float64{2.1, 2.4, 1.9, 2.2}, []float64{0.8, 1.1, 0.9, 1.3, 1.0}
	low, high := ImprovementInterval(a, b)
	for _, end := range []float64{low, high} {
		d := Welch(a, times(b, 1+end))
		require.InDelta(t, 0.05, d.P, 1e-6)
	}
	require.Less(t, low, Mean(a)/Mean(b)-1)
	require.Less(t, Mean(a)/Mean(b)-1, high)
	precise := []float64{1, 1, 1, 1, 1}
	low, high = ImprovementInterval(a, precise)
	d := Welch(a, precise)
	require.InDeltaSlice(t, []float64{d.Low, d.High}, []float64{low, high}, 1e-6, "a precise side is a constant")
	for _, none := range [][]float64{{-1, 0.1, 2}, {-3, -3.1, -2.9}, {1}} {
		low, high = ImprovementInterval(a, none)
		require.True(t, math.IsNaN(low) && math.IsNaN(high), "%v", none)
	}
	a, b = []float64{0.4375, 0.359375}, []float64{0.25, 0.125, 0.1875}
	for r, rejected := range map[float64]bool{0: false, 1: true, 2: false} {
		require.Equal(t, rejected, Welch(a, times(b, r)).P < 0.05, "%v", r)
	}
	low, high = ImprovementInterval(a, b)
	require.True(t, math.IsNaN(low) && math.IsNaN(high))
}

// The interval of the ratio and that of the difference agree on whether the sides differ.
func TestImprovementAgreesWithTheDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0.1, 1), 2, 6)
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		low, high := ImprovementInterval(a, b)
		d := Welch(a, b)
		if math.IsNaN(low) || math.Abs(d.P-0.05) < 1e-6 {
			return
		}
		require.Equal(t, d.P >= 0.05, low <= 0 && 0 <= high)
	})
}

// The true ratio is 2.05, and the baseline varies by a third of its mean, as in 4/0 of the study sparse-tags. The
// difference's interval divided by the observed baseline contains the truth far less often.
func TestCoverageOfAnImprovement(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	const trials = 1500
	covered, divided, bounded := 0, 0, 0
	for range trials {
		a, b := make([]float64, 5), make([]float64, 5)
		for i := range a {
			a[i], b[i] = 2.05+0.06*random.NormFloat64(), 1+0.28*random.NormFloat64()
		}
		low, high := ImprovementInterval(a, b)
		if math.IsNaN(low) {
			continue
		}
		bounded++
		if low <= 1.05 && 1.05 <= high {
			covered++
		}
		if d := Welch(a, b); d.Low/Mean(b) <= 1.05 && 1.05 <= d.High/Mean(b) {
			divided++
		}
	}
	require.Greater(t, float64(bounded)/trials, 0.95)
	require.InDelta(t, 0.95, float64(covered)/float64(bounded), 0.02)
	require.Less(t, float64(divided)/float64(bounded), 0.85)
}
