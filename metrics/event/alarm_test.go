package event

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGradientOfARound(t *testing.T) {
	t.Parallel()
	r := Round{GradNorm: 0.5, FracRewardZeroStd: 0.75, TrainedOwn: 4, TrainedExternal: 3}
	g, ok := r.Gradient()
	require.True(t, ok)
	require.Equal(t, Gradient{Norm: 0.5, Flat: 0.75, Own: 4, External: 3}, g)
	r.NonFinite = map[string]string{"frac_reward_zero_std": "NaN"}
	g, ok = r.Gradient()
	require.True(t, ok)
	require.True(t, math.IsNaN(g.Flat))

	for _, without := range []Round{{GradNorm: 1, GenerateOnly: true}, {NonFinite: map[string]string{"grad_norm": "+Inf"}}, {GradNorm: math.NaN()}} {
		_, ok := without.Gradient()
		require.False(t, ok)
	}
}
