package sample

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPooledDeviation(t *testing.T) {
	deviation, freedom := PooledDeviation([]float64{1, 3}, []float64{10, 12, 14}, []float64{7}, nil)
	require.Equal(t, 3, freedom)
	require.InDelta(t, math.Sqrt((2*1+4*2)/3.0), deviation, 1e-12)
	deviation, freedom = PooledDeviation([]float64{1}, nil)
	require.Zero(t, freedom)
	require.True(t, math.IsNaN(deviation))
}

// The sizes are the first at which the power by SciPy 1.10 (nct) is 0.8 or more.
func TestSampleSize(t *testing.T) {
	for _, c := range []struct {
		effect, level float64
		want          int
	}{
		{0.5, 0.05, 64}, {1, 0.05, 17}, {2, 0.05, 6}, {1, 0.005, 29},
	} {
		n, ok := SampleSize(c.effect*0.01, 0.01, c.level)
		require.True(t, ok)
		require.Equal(t, c.want, n, "%v at %v", c.effect, c.level)
	}
	for _, none := range [][2]float64{{0, 1}, {1, 0}, {math.NaN(), 1}, {1, math.Inf(1)}, {1e-6, 1}} {
		_, ok := SampleSize(none[0], none[1], 0.05)
		require.False(t, ok, none)
	}
}
