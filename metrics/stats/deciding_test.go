package stats

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// The lowest p-value of n seeds against n is 2/C(2n, n): 2/70, 2/252, 2/924, 2/3432, 2/12870. Nine against nine have
// 48620 arrangements, of which 20,000 are sampled: the lowest p-value is 1/20,001.
func TestSeedsToDecide(t *testing.T) {
	for tests, want := range map[int]int{0: 4, 1: 4, 2: 5, 6: 5, 7: 6, 23: 6, 24: 7, 85: 7, 86: 8, 321: 8, 322: 9, 1000: 9, 1001: sample.MaxSeeds} {
		require.Equal(t, want, sample.SeedsToDecide(tests, 0, 0), "%d tests", tests)
	}
	require.Equal(t, 3, sample.SeedsToDecide(1, 1, 4), "three against four have 35 arrangements")
	require.Equal(t, 4, sample.SeedsToDecide(6, 4, 5), "four against five have 126")
	require.Equal(t, 4, sample.SeedsToDecide(6, 3, 7), "three against seven have 120: 6/120 is the level, not below it")
	require.Equal(t, 3, sample.SeedsToDecide(5, 3, 7))
}

// A verdict rests on the permutation test alone: it is given if and only if its corrected p-value is below the level.
func TestVerdictsRestOnTheDecidingTest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rewards := rapid.SliceOfN(rapid.Float64Range(0, 80), 1, 6)
		apart := rapid.SampledFrom([]float64{0, 0, 40, 1000}).Draw(t, "apart")
		high := rewards.Draw(t, "a")
		for i := range high {
			high[i] += apart
		}
		planned := rapid.IntRange(0, 8).Draw(t, "planned")
		p := compareAll(t, CompareOptions{Baseline: "b", planned: planned}, experiment("a", 4, high...), experiment("b", 4, rewards.Draw(t, "b")...)).Pairs[0]
		decided := p.Outcome == OutcomeBetter || p.Outcome == OutcomeWorse
		if p.PermutationPValue == nil {
			require.False(t, decided)
			require.Empty(t, p.DecidedBy)
			return
		}
		require.Equal(t, DecidedByPermutation, p.DecidedBy)
		require.InDelta(t, min(1, *p.PermutationPValue*float64(max(1, planned))), *p.PValueHolm, 1e-12)
		require.Equal(t, *p.PValueHolm < 0.05-1e-9, decided)
		least := sample.LeastPermutation(p.SeedsA, p.SeedsB) * float64(max(1, planned))
		if least >= 0.05 {
			require.False(t, decided, "no difference of so few seeds decides")
			if p.MoreSeeds != nil {
				require.Equal(t, ReasonSeedsCannot, p.Reason.Kind)
			}
		}
		if p.MoreSeeds != nil {
			n := min(p.SeedsA, p.SeedsB) + *p.MoreSeeds
			x, y := max(p.SeedsA, n), max(p.SeedsB, n)
			require.Less(t, sample.LeastPermutation(x, y)*float64(max(1, planned)), 0.05, "with the seeds it names it can decide")
		}
	})
}
