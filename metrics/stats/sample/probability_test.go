package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// Of separated samples the interval's end is p where (1 - p)² = 1.96² p (1 - p) (1 + 4 ((1 - p) / (2 - p) + p / (1 +
// p))) / 25.
func TestProbabilityIntervalOfSeparatedSamples(t *testing.T) {
	low, high := ProbabilityInterval([]float64{6, 7, 8, 9, 10}, []float64{1, 2, 3, 4, 5})
	require.InDelta(t, 1, high, 0)
	require.InDelta(t, (1-low)*(1-low), 1.959964*1.959964*low*(1-low)*(1+4*((1-low)/(2-low)+low/(1+low)))/25, 1e-6)
	require.InDelta(t, 0.64, low, 0.03)
	low, _ = ProbabilityInterval([]float64{1}, []float64{1, 2})
	require.True(t, math.IsNaN(low))
}

// Two normal samples of five, apart by so much that the true probability is 0.5, 0.8 or 0.95.
func TestCoverageOfTheProbabilityOfImprovement(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	const trials = 2000
	for _, truth := range []float64{0.5, 0.8, 0.95} {
		apart, covered := math.Sqrt2*distuv.UnitNormal.Quantile(truth), 0
		for range trials {
			a, b := make([]float64, 5), make([]float64, 5)
			for i := range a {
				a[i], b[i] = apart+random.NormFloat64(), random.NormFloat64()
			}
			if low, high := ProbabilityInterval(a, b); low <= truth && truth <= high {
				covered++
			}
		}
		t.Logf("%v: %.3f", truth, float64(covered)/trials)
		require.Greater(t, float64(covered)/trials, 0.92, "%v", truth)
	}
}

func TestProbabilityIntervalIgnoresOrderAndTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.SampledFrom([]float64{0.1, 0.2, 0.25, 0.3, 0.7}), 2, 6)
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		low, high := ProbabilityInterval(a, b)
		seen := ProbabilityOfImprovement(a, b)
		require.True(t, 0 <= low && low <= seen && seen <= high && high <= 1)
		again, top := ProbabilityInterval(rapid.Permutation(a).Draw(t, "a again"), b)
		require.Equal(t, []float64{low, high}, []float64{again, top})
		turned, turnedTop := ProbabilityInterval(b, slices.Clone(a))
		require.InDeltaSlice(t, []float64{1 - high, 1 - low}, []float64{turned, turnedTop}, 1e-9)
	})
}
