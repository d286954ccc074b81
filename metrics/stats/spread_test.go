package stats_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Golden: numpy.quantile([1, 2, 4, 8], [0.5, 0.9]) is [3, 6.8].
func TestSpreadIsNumPys(t *testing.T) {
	s := stats.NewSpread([]float64{8, math.NaN(), 1, 4, 2, math.Inf(1)})
	require.Equal(t, 4, s.Values)
	require.InDelta(t, 3.75, *s.Mean, 1e-12)
	require.InDelta(t, 3, *s.Median, 1e-12)
	require.InDelta(t, 6.8, *s.P90, 1e-12)
	require.InDelta(t, 8, *s.Highest, 1e-12)
	require.Equal(t, stats.Spread{}, stats.NewSpread([]float64{math.NaN()}), "nothing known is null, not 0")
}

func TestQuantileLiesAmongTheValuesAndGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 30).Draw(t, "xs")
		slices.Sort(xs)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		r := rapid.Float64Range(q, 1).Draw(t, "r")
		a, b := stats.Quantile(xs, q), stats.Quantile(xs, r)
		if a < xs[0] || b > xs[len(xs)-1] || a > b+1e-6 {
			t.Fatalf("quantiles %v and %v of %v", a, b, xs)
		}
	})
}
