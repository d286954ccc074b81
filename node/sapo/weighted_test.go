package sapo

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The first draw is proportional to the weights, and the second to the remaining weights.
func TestDrawWeightedFollowsTheWeights(t *testing.T) {
	pool := []Group{{Rollout: 0, Rewards: []float64{0.1, 0.1}}, {Rollout: 1, Rewards: []float64{0, 0.6}}, {Rollout: 2, Rewards: []float64{0.6, 0.6}}, {Rollout: 3, Rewards: []float64{0, 0}}}
	const draws = 20_000
	first, second := [4]float64{}, [4]float64{}
	for seed := range uint64(draws) {
		drawn := DrawWeighted(pool, 2, seed)
		first[drawn[0].Rollout]++
		second[drawn[1].Rollout]++
	}
	weights := [4]float64{0.1, 0.3, 0.6, 0}
	for i, w := range weights {
		next := 0.0
		for before, v := range weights {
			if before != i && v > 0 {
				next += v * w / (1 - v)
			}
		}
		require.InDelta(t, w, first[i]/draws, 4*math.Sqrt(w*(1-w)/draws)+1e-12, "group %d first", i)
		require.InDelta(t, next, second[i]/draws, 4*math.Sqrt(next*(1-next)/draws)+1e-12, "group %d second", i)
	}
}

// DrawWeighted takes j distinct groups, or all. Groups without a reward come last, and only if the others do not
// suffice. The result is a function of the seed, and the pool does not change.
func TestDrawWeightedWithoutReplacement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rewards := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, 0.25, 1}), 0, 20).Draw(t, "rewards")
		j, seed := rapid.IntRange(-1, 24).Draw(t, "j"), rapid.Uint64().Draw(t, "seed")
		var pool []Group
		worth := 0
		for i, r := range rewards {
			pool = append(pool, Group{Rollout: i, Rewards: []float64{r, r}})
			if r > 0 {
				worth++
			}
		}
		drawn, again, seen := DrawWeighted(pool, j, seed), DrawWeighted(pool, j, seed), map[int]bool{}
		if len(drawn) != max(0, min(j, len(pool))) {
			t.Fatalf("%d of %d, %d wanted", len(drawn), len(pool), j)
		}
		for i, g := range drawn {
			if seen[g.Rollout] || again[i].Rollout != g.Rollout || (g.Rewards[0] > 0) != (i < worth) || pool[i].Rollout != i {
				t.Fatalf("place %d: %+v of %v", i, g, rewards)
			}
			seen[g.Rollout] = true
		}
	})
}
