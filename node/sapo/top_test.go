package sapo

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// DrawTop takes the best by total reward for any seed, and never a group without reward. Among equals, each is
// taken equally often.
func TestDrawTopTakesTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		totals := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, 0.25, 0.5, 1}), 0, 20).Draw(t, "totals")
		j, seed := rapid.IntRange(-1, 24).Draw(t, "j"), rapid.Uint64().Draw(t, "seed")
		var pool []Group
		worth := 0
		for i, r := range totals {
			pool = append(pool, Group{Rollout: i, Rewards: []float64{r, 0}})
			if r > 0 {
				worth++
			}
		}
		drawn, seen := DrawTop(pool, j, seed), map[int]bool{}
		if len(drawn) != max(0, min(j, worth)) {
			t.Fatalf("%d drawn of %d with a reward, %d wanted", len(drawn), worth, j)
		}
		least := 2.0
		for _, g := range drawn {
			if seen[g.Rollout] || g.Rewards[0] > least || g.Rewards[0] == 0 {
				t.Fatalf("group %d with %v after %v", g.Rollout, g.Rewards[0], least)
			}
			seen[g.Rollout], least = true, g.Rewards[0]
		}
		for _, g := range pool {
			if !seen[g.Rollout] && len(drawn) == j && j > 0 && g.Rewards[0] > least {
				t.Fatalf("group %d with %v was left out", g.Rollout, g.Rewards[0])
			}
		}
	})
	first := [2]int{}
	for seed := range uint64(2000) {
		first[DrawTop([]Group{{Rollout: 0, Rewards: []float64{1, 0}}, {Rollout: 1, Rewards: []float64{0, 1}}}, 1, seed)[0].Rollout]++
	}
	require.InDelta(t, 1000, first[0], 150)
}
