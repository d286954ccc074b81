package sapo

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLeastLikely(t *testing.T) {
	require.Zero(t, LeastLikely(nil, 4))
	require.InDelta(t, -2.5, LeastLikely([]float64{-10}, 4), 1e-12, "a short completion is no evidence")
	require.InDelta(t, -6, LeastLikely([]float64{-1, -1, -6, -6, -6, -6, -1}, 4), 1e-12)
	require.InDelta(t, -2.5, LeastLikely([]float64{-10, 0, 0, 0, -10, 0, 0}, 4), 1e-12, "far apart")
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Float64Range(-20, 0), 0, 40).Draw(t, "logprobs")
		window := rapid.IntRange(1, 8).Draw(t, "window")
		want := 0.0
		for i := range list {
			sum := 0.0
			for k := max(0, i-window+1); k <= i; k++ {
				sum += list[k]
			}
			want = min(want, sum/float64(window))
		}
		if got := LeastLikely(list, window); got < want-1e-9 || got > want+1e-9 {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}
