package heldout

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPassAtKIsTheFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		c, k := rapid.IntRange(0, n).Draw(t, "c"), rapid.IntRange(1, n).Draw(t, "k")
		var none, all big.Int
		none.Binomial(int64(n-c), int64(k))
		all.Binomial(int64(n), int64(k))
		ratio, _ := new(big.Rat).SetFrac(&none, &all).Float64()
		if n-c < k {
			ratio = 0
		}
		got := PassAtK(n, c, k)
		require.InDelta(t, 1-ratio, got, 1e-12)
		if k > 1 {
			require.GreaterOrEqual(t, got, PassAtK(n, c, k-1)-1e-15, "another completion never hurts")
		}
		if c > 0 {
			require.GreaterOrEqual(t, got, PassAtK(n, c-1, k)-1e-15)
		}
	})
	require.InDelta(t, 0.25, PassAtK(4, 1, 1), 1e-15)
	require.InDelta(t, 0.5, PassAtK(4, 1, 2), 1e-15)
	require.InDelta(t, 1, PassAtK(4, 9, 1), 0, "more right than there are")
	require.InDelta(t, 0, PassAtK(4, -1, 4), 0)
	require.True(t, math.IsNaN(PassAtK(4, 1, 5)))
	require.True(t, math.IsNaN(PassAtK(4, 1, 0)))
}
