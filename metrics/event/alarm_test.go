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
	require.Equal(t, Gradient{0.5, 4}, g, "one of four own groups and all of the others'")

	trainer := Round{GradNorm: 0.5, FracRewardZeroStd: 0.75}
	g, _ = trainer.Gradient()
	require.Equal(t, Gradient{0.5, 0.25}, g, "a --node-command need not report groups")
	trainer.NonFinite = map[string]string{"frac_reward_zero_std": "NaN"}
	g, ok = trainer.Gradient()
	require.True(t, ok)
	require.True(t, math.IsNaN(g.Groups))

	for _, without := range []Round{{GradNorm: 1, GenerateOnly: true}, {NonFinite: map[string]string{"grad_norm": "+Inf"}}, {GradNorm: math.NaN()}} {
		_, ok := without.Gradient()
		require.False(t, ok)
	}
}
