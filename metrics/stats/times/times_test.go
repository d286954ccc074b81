package times_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/stats/times"
)

// Golden: numpy.quantile([1, 2, 4, 8], [0.5, 0.9]) is [3, 6.8].
func TestSpreadIsNumPys(t *testing.T) {
	s := times.NewSpread([]float64{8, math.NaN(), 1, 4, 2, math.Inf(1)})
	require.Equal(t, 4, s.Values)
	require.InDelta(t, 3.75, *s.Mean, 1e-12)
	require.InDelta(t, 3, *s.Median, 1e-12)
	require.InDelta(t, 6.8, *s.P90, 1e-12)
	require.InDelta(t, 8, *s.Highest, 1e-12)
	require.Equal(t, times.Spread{}, times.NewSpread([]float64{math.NaN()}), "nothing known is null, not 0")
}
