package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHistoryIsBoundedAndKeepsPeaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5000).Draw(t, "samples")
		peak := rapid.IntRange(0, n-1).Draw(t, "peak")
		var h History
		for i := range n {
			used := int64(10)
			if i == peak {
				used = 99
			}
			h.Add(float64(i), used)
		}
		require.LessOrEqual(t, len(h.Values()), historyPoints)
		require.Greater(t, len(h.Values()), min(n, historyPoints/2)-1)
		require.Contains(t, h.Values(), 99.0)
		require.InDelta(t, n-1, h.Span(), float64(h.each))
	})
}

func TestSlope(t *testing.T) {
	slope := func(n int, used func(i int) int64) float64 {
		var h History
		for i := range n {
			h.Add(float64(i), used(i))
		}
		return h.Slope()
	}
	require.Zero(t, slope(0, nil))
	require.Zero(t, slope(1, func(int) int64 { return 5 }))
	require.InDelta(t, 3, slope(2000, func(i int) int64 { return int64(100 + 3*i) }), 1e-9)
	require.InDelta(t, -2, slope(100, func(i int) int64 { return int64(1000 - 2*i) }), 1e-9)
	phases := func(i int) int64 { return 50e9 + 5e9*int64(i/7%2) }
	require.Zero(t, slope(3000, phases), "phases that come and go")
	require.Zero(t, slope(1000, func(i int) int64 { return int64(min(i, 60)) * 1e9 }), "loading, then level")
	require.InDelta(t, 2e6, slope(3000, func(i int) int64 { return phases(i) + 2e6*int64(i) }), 1e5)
}
