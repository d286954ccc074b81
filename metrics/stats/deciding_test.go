package stats

import (
	"math/rand/v2"
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

// A verdict rests on the permutation test and on Welch's: it is given if and only if the larger p-value, corrected, is
// below the level, and each side has three seeds.
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
		deciding := *p.PermutationPValue
		if p.PValue != nil {
			deciding = max(deciding, *p.PValue)
		}
		require.InDelta(t, min(1, deciding*float64(max(1, planned))), *p.PValueHolm, 1e-12)
		require.Equal(t, *p.PValueHolm < 0.05-1e-9 && min(p.SeedsA, p.SeedsB) >= 3, decided)
		if decided && p.CILow != nil {
			require.False(t, *p.CILow <= 0 && *p.CIHigh >= 0, "no verdict stands beside an interval that contains 0")
		}
		least := sample.LeastPermutation(p.SeedsA, p.SeedsB) * float64(max(1, planned))
		if least >= 0.05 {
			require.False(t, decided, "no difference of so few seeds decides")
			if p.MoreSeeds != nil && min(p.SeedsA, p.SeedsB) >= 3 {
				require.Equal(t, ReasonSeedsCannot, p.Reason.Kind)
			}
		}
		if p.MoreSeeds != nil {
			require.Positive(t, *p.MoreSeeds)
			n := min(p.SeedsA, p.SeedsB) + *p.MoreSeeds
			x, y := max(p.SeedsA, n), max(p.SeedsB, n)
			require.Less(t, sample.LeastPermutation(x, y)*float64(max(1, planned)), 0.05, "with the seeds it names it can decide")
		}
	})
}

// Equal means with unequal spreads: the permutation test alone decides 4.8 % of such samples at the level of one of
// three comparisons, 0.05 / 3. Together with Welch's test it stays near that level.
func TestUnequalSpreadsAloneDecideNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const trials = 3000
	alone, decided := 0, 0
	for range trials {
		a, b := make([]float64, 5), make([]float64, 5)
		for i := range a {
			a[i], b[i] = random.NormFloat64(), 10*random.NormFloat64()
		}
		pairs := []Pair{newPair(side{"a", a}, side{"b", b})}
		decide(pairs, ReasonNoRounds, 3)
		if sample.Significant(3 * *pairs[0].PermutationPValue) {
			alone++
		}
		if pairs[0].Outcome != OutcomeUndecided {
			decided++
		}
	}
	require.Greater(t, float64(alone)/trials, 0.035)
	require.Less(t, float64(decided)/trials, 0.025)
}
