package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The first is the example of scipy.stats.trim_mean's documentation. The others are by hand: of 3 values no one is left
// out, of 4 to 7 one at each end, of 8 two.
func TestIQMIsSciPysTrimmedMean(t *testing.T) {
	for _, c := range []struct {
		xs   []float64
		want float64
	}{
		{[]float64{1, 2, 3, 5}, 2.5},
		{[]float64{7}, 7},
		{[]float64{1, 4}, 2.5},
		{[]float64{9, 0, 3}, 4},
		{[]float64{100, 1, 2, 3, -50}, 2},
		{[]float64{0.35, 0.3, 0.9, 0.34, 0.33, 0.1, 0.32}, 0.328},
		{[]float64{8, 1, 7, 2, 6, 3, 5, 40}, 5.25},
		{[]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, 9.5},
	} {
		require.InDelta(t, c.want, IQM(c.xs), 1e-12, "%v", c.xs)
	}
	require.True(t, math.IsNaN(IQM(nil)))
}

func TestIQMLiesAmongTheMiddleAndIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-1e3, 1e3), 1, 30).Draw(t, "xs")
		iqm := IQM(xs)
		require.InDelta(t, iqm, IQM(rapid.Permutation(xs).Draw(t, "again")), 0)
		sorted := slices.Sorted(slices.Values(xs))
		cut := len(xs) / 4
		require.GreaterOrEqual(t, iqm, sorted[cut]-1e-9)
		require.LessOrEqual(t, iqm, sorted[len(xs)-1-cut]+1e-9)
		shifted := make([]float64, len(xs))
		for i, x := range xs {
			shifted[i] = 2*x + 3
		}
		require.InDelta(t, 2*iqm+3, IQM(shifted), 1e-9)
		once := make([]uint16, len(xs))
		for i := range once {
			once[i] = 1
		}
		require.InDelta(t, iqm, resampledIQM(sorted, once), 1e-9, "the resample that is the sample")
	})
}

// resamples calls f with each of the n^n equally likely resamples of n places.
func resamples(n int, f func(places []int)) {
	places := make([]int, n)
	for {
		f(places)
		i := 0
		for ; i < n && places[i] == n-1; i++ {
			places[i] = 0
		}
		if i == n {
			return
		}
		places[i]++
	}
}

func picked(xs []float64, places []int) []float64 {
	out := make([]float64, len(places))
	for i, p := range places {
		out[i] = xs[p]
	}
	return out
}

// share is the lowest of ascending values that more than that share of them don't exceed.
func share(sorted []float64, q float64) float64 { return sorted[int(q*float64(len(sorted)))] }

// The interval of few values is known: from all of their resamples.
func TestIQMIntervalIsThatOfAllResamples(t *testing.T) {
	for _, xs := range [][]float64{{0, 1}, {3, 0, 10}, {0.31, 0.35, 0.33, 0.34}, {0.1, 0.5, 0.2, 0.4, 0.3}} {
		var all []float64
		resamples(len(xs), func(places []int) { all = append(all, IQM(picked(xs, places))) })
		slices.Sort(all)
		low, high := new(Bootstrap).IQM(xs)
		step := (slices.Max(xs) - slices.Min(xs)) / 10
		require.InDelta(t, share(all, 0.025), low, step, "%v", xs)
		require.InDelta(t, share(all, 0.975), high, step, "%v", xs)
	}
	low, high := new(Bootstrap).IQM([]float64{0, 1})
	require.Equal(t, []float64{0, 1}, []float64{low, high}, "a quarter of the resamples has one value alone")
	low, high = new(Bootstrap).IQM([]float64{5, 5, 5})
	require.Equal(t, []float64{5, 5}, []float64{low, high})
	low, high = new(Bootstrap).IQM([]float64{1})
	require.True(t, math.IsNaN(low) && math.IsNaN(high))
}

func TestBootstrapsIgnoreOrderAndStayAmongTheValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.SampledFrom([]float64{0.1, 0.2, 0.25, 0.3, 0.7}), 2, 6)
		a := values.Draw(t, "a")
		low, high := new(Bootstrap).IQM(a)
		require.LessOrEqual(t, low, high)
		require.GreaterOrEqual(t, low, slices.Min(a)-1e-12)
		require.LessOrEqual(t, high, slices.Max(a)+1e-12)
		again, top := new(Bootstrap).IQM(rapid.Permutation(a).Draw(t, "a again"))
		require.Equal(t, []float64{low, high}, []float64{again, top})
	})
}

// Of many values the interval covers the true value about as often as it claims.
func TestIQMIntervalCoversTheTruth(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	covered := 0
	const trials = 200
	var boot Bootstrap
	for range trials {
		xs := make([]float64, 24)
		for i := range xs {
			xs[i] = random.NormFloat64()
		}
		if low, high := boot.IQM(xs); low <= 0 && 0 <= high {
			covered++
		}
	}
	require.InDelta(t, 0.95, float64(covered)/trials, 0.07)
}

// BenchmarkBootstrap is of rows after the first: the resamples of a size are drawn once.
func BenchmarkBootstrap(b *testing.B) {
	var boot Bootstrap
	xs := []float64{0.35, 0.34, 0.36, 0.33, 0.37}
	for b.Loop() {
		boot.IQM(xs)
	}
}
