package sapo

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The expected values are those of rl-swarm's adaptive_ij.py for the same rewards, with J of 0..8 limited to leave
// one own question.
func TestSplitEMAFollowsThePredecessorsRule(t *testing.T) {
	s := SplitEMA{External: 4}
	const alpha, decay, budget = 2, 0.5, 8
	for i, step := range []struct {
		reward, average, external float64
		next                      Split
	}{
		{1, 1, 4, Split{4, 4}},        // the average begins with the first reward
		{3, 2, 6, Split{2, 6}},        // above: 4 + 2 (3 - 2)
		{3, 2.5, 7, Split{1, 7}},      // 6 + 2 (3 - 2.5)
		{5, 3.75, 8, Split{1, 7}},     // 9.5, limited to 8; one own question remains
		{1, 2.375, 5.25, Split{3, 5}}, // below: 8 + 2 (1 - 2.375)
		{0.625, 1.5, 3.5, Split{4, 4}},
		{0, 0.75, 2, Split{6, 2}},
		{-9.25, -4.25, 0, Split{8, 0}},
	} {
		s.Observe(step.reward, alpha, decay, budget)
		require.Equal(t, SplitEMA{step.external, step.average, i + 1}, s)
		require.Equal(t, step.next, s.Next(budget))
	}
}

// A split always has the budget's sum, an own question and no negative J, whatever it observes.
func TestSplitsKeepTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.IntRange(2, 256).Draw(t, "budget")
		first := splitOf(budget, rapid.IntRange(0, budget-1).Draw(t, "J"))
		ema, bandit := SplitEMA{External: float64(first.External)}, NewSplitBandit(first, rapid.Uint64().Draw(t, "seed"))
		check := func(s Split) {
			if s.Own+s.External != budget || s.Own < 1 || s.External < 0 {
				t.Fatalf("%+v of %d", s, budget)
			}
		}
		check(ema.Next(budget))
		if bandit.Next(budget) != first || ema.Next(budget) != first {
			t.Fatalf("begins with %v and %v, not %v", bandit.Next(budget), ema.Next(budget), first)
		}
		for range rapid.IntRange(0, 12).Draw(t, "rounds") {
			ema.Observe(rapid.Float64Range(0, 1).Draw(t, "reward"), rapid.Float64Range(0, 1000).Draw(t, "alpha"), 0.95, budget)
			check(ema.Next(budget))
			bandit.Credit(rapid.Float64Range(-1, 1).Draw(t, "gain"), rapid.Float64Range(1, 1e9).Draw(t, "cost"))
			bandit.Choose(rapid.Uint64().Draw(t, "choice"))
			check(bandit.Next(budget))
		}
		data, err := json.Marshal(bandit)
		var back SplitBandit
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		if err != nil {
			t.Fatal(err)
		}
		before := bandit.Arm
		bandit.Choose(7)
		back.Choose(7)
		if bandit.Arm != back.Arm {
			t.Fatalf("from %d to %d, and to %d after a way through JSON", before, bandit.Arm, back.Arm)
		}
	})
}

// The bandit tries the first split, then every other split once. The order differs between nodes.
func TestBanditTriesEveryArmFirst(t *testing.T) {
	second := map[int]int{}
	for seed := range uint64(300) {
		b := NewSplitBandit(Split{4, 4}, seed)
		tried := map[int]bool{}
		for i := range 4 {
			if i == 1 {
				second[b.Next(8).External]++
			}
			tried[b.Next(8).External] = true
			b.Credit(1, 1)
			b.Choose(seed)
		}
		require.Equal(t, map[int]bool{0: true, 2: true, 4: true, 6: true}, tried)
	}
	require.Len(t, second, 3)
	for j, n := range second {
		require.Greater(t, n, 60, "J = %d", j)
	}
	require.Len(t, NewSplitBandit(Split{3, 5}, 1).Arms, 5, "a first split of its own is an arm, too")
	require.Len(t, NewSplitBandit(Split{1, 1}, 1).Arms, 2)
}

// play lets a bandit choose for a number of blocks. Each block's gain is its worth plus noise. It counts the
// choices of the second half.
func play(seed uint64, blocks int, worth func(block, external int) float64) map[int]int {
	rng := rand.New(rand.NewPCG(seed, 1))
	b, last := NewSplitBandit(Split{4, 4}, seed), map[int]int{}
	for block := range blocks {
		external := b.Next(8).External
		if block >= blocks/2 {
			last[external]++
		}
		b.Credit(worth(block, external)+0.5*rng.NormFloat64(), 1)
		b.Choose(Seed(1, "node", block, PurposeSplit, int(seed)))
	}
	return last
}

// If arms differ by one deviation of the noise, the bandit keeps to the best one, whichever it is, although all
// gains fade. If none is better, it continues to try all. If another arm becomes the best, it follows.
func TestBanditFindsTheBestSplit(t *testing.T) {
	share := func(best int, worth func(block, external int) float64) float64 {
		hits, all := 0, 0
		for seed := range uint64(60) {
			for external, n := range play(seed, 120, worth) {
				if all += n; external == best {
					hits += n
				}
			}
		}
		return float64(hits) / float64(all)
	}
	for _, best := range []int{0, 4, 6} {
		found := share(best, func(block, external int) float64 {
			fading := math.Exp(-float64(block) / 200)
			if external == best {
				return fading * 1.2
			}
			return fading * 0.5
		})
		t.Logf("J = %d is best: in %.0f %% of the second half's blocks", best, 100*found)
		require.Greater(t, found, 0.6)
	}
	require.InDelta(t, 0.25, share(2, func(int, int) float64 { return 0 }), 0.05)
	moved := share(0, func(block, external int) float64 {
		if (external == 0) == (block >= 40) {
			return 1
		}
		return 0
	})
	require.Greater(t, moved, 0.6, "it doesn't follow")
}

// The credits of an arm with half the cost scatter twice as much, but the bandit has one deviation for all arms. If
// the arms are equally good, it is still chosen as often as others, within a twentieth.
func TestBanditIsFairToCheapArms(t *testing.T) {
	for _, worth := range []float64{0, 0.5} {
		cheap, all := 0, 0
		for seed := range uint64(200) {
			rng, b := rand.New(rand.NewPCG(seed, 1)), NewSplitBandit(Split{4, 4}, seed)
			for block := range 120 {
				external, cost := b.Next(8).External, 2.0
				if external == 6 {
					cost = 1
				}
				if block >= 60 {
					all++
					if external == 6 {
						cheap++
					}
				}
				b.Credit(worth*cost+0.5*rng.NormFloat64(), cost)
				b.Choose(Seed(1, "node", block, PurposeSplit, int(seed)))
			}
		}
		require.InDelta(t, 0.25, float64(cheap)/float64(all), 0.05, "worth %v", worth)
	}
}

// Scaling all credits changes no choice, and a credit that is not finite does not count.
func TestBanditIsWithoutUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		a, b := NewSplitBandit(Split{4, 4}, seed), NewSplitBandit(Split{4, 4}, seed)
		for i := range rapid.IntRange(1, 20).Draw(t, "blocks") {
			gain := float64(rapid.IntRange(-8, 8).Draw(t, "gain"))
			a.Credit(gain, 3)
			b.Credit(gain*1024, 3)
			b.Credit(math.NaN(), 3)
			b.Credit(1, 0)
			a.Choose(uint64(i))
			b.Choose(uint64(i))
			if a.Arm != b.Arm {
				t.Fatalf("block %d: %d and %d", i, a.Arm, b.Arm)
			}
		}
	})
}
