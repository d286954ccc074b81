package sapo

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func rewards(t *rapid.T) []float64 {
	return rapid.SliceOfN(rapid.Float64Range(0, 1), 2, 32).Draw(t, "rewards")
}

func TestAdvantagesByHand(t *testing.T) {
	got, err := Advantages([]float64{1, 0, 0, 0}, ScaleGroup)
	if err != nil {
		t.Fatal(err)
	}
	// mean 1/4, variance (9+1+1+1)/16/3 = 1/4, std 1/2
	want := []float64{1.5, -0.5, -0.5, -0.5}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, _ := Advantages([]float64{1, 0, 0, 0}, ScaleNone); !slices.Equal(got, []float64{.75, -.25, -.25, -.25}) {
		t.Errorf("unscaled: got %v", got)
	}
	if _, err := Advantages(nil, "batch"); err == nil {
		t.Error("an unknown scale was taken")
	}
}

func TestAdvantagesAreStandardised(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rewards(t)
		a, err := Advantages(r, ScaleGroup)
		if err != nil {
			t.Fatal(err)
		}
		if AllEqual(r) || Std(r) < 1e-9 {
			return
		}
		if m := Mean(a); math.Abs(m) > 1e-6 {
			t.Errorf("mean %g", m)
		}
		if s := Std(a); math.Abs(s-1) > 1e-6 {
			t.Errorf("std %g", s)
		}
		for i := range r {
			for k := range r {
				if r[i] > r[k] && a[i] < a[k] {
					t.Errorf("order of %g and %g turned", r[i], r[k])
				}
			}
		}
	})
}

func TestEqualRewardsHaveExactlyNoAdvantage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(0, 1).Draw(t, "value")
		r := slices.Repeat([]float64{v}, rapid.IntRange(1, 64).Draw(t, "n"))
		a, _ := Advantages(r, ScaleGroup)
		for _, x := range a {
			if x != 0 {
				t.Fatalf("advantage %g for equal rewards %g", x, v)
			}
		}
	})
}

func pool(t *rapid.T) []Group {
	n := rapid.IntRange(0, 40).Draw(t, "pool")
	groups := make([]Group, n)
	for i := range groups {
		groups[i] = Group{Peer: i / 4, Rollout: i % 4, Rewards: rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.1, 1}), 1, 8).Draw(t, "r")}
	}
	return groups
}

func TestFilterAndDraw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := pool(t)
		kept := Filter(all)
		useful := 0
		for _, g := range all {
			if !AllEqual(g.Rewards) {
				useful++
			}
		}
		if len(kept) != useful {
			t.Fatalf("kept %d of %d useful", len(kept), useful)
		}
		j := rapid.IntRange(0, 10).Draw(t, "j")
		seed := rapid.Uint64().Draw(t, "seed")
		drawn := DrawExternals(kept, j, seed)
		if len(drawn) != min(j, len(kept)) {
			t.Fatalf("drew %d of %d, wanted %d", len(drawn), len(kept), j)
		}
		seen := map[[2]int]bool{}
		for _, g := range drawn {
			key := [2]int{g.Peer, g.Rollout}
			if seen[key] || AllEqual(g.Rewards) {
				t.Fatalf("drew %v twice or without advantage", key)
			}
			seen[key] = true
		}
		again := DrawExternals(kept, j, seed)
		for i := range again {
			if again[i].Peer != drawn[i].Peer || again[i].Rollout != drawn[i].Rollout {
				t.Fatal("the same seed drew differently")
			}
		}
	})
}

// Every group of a pool of 12 is drawn about equally often: chi-square with 11 degrees of freedom stays below its
// 99.99 % quantile (37.4) for these fixed seeds.
func TestDrawIsUniform(t *testing.T) {
	groups := make([]Group, 12)
	for i := range groups {
		groups[i].Rollout = i
	}
	const rounds, j = 6000, 4
	count := make([]float64, len(groups))
	for r := range rounds {
		for _, g := range DrawExternals(groups, j, Seed(1, "node_0", r, PurposeExternals, 0)) {
			count[g.Rollout]++
		}
	}
	expected := float64(rounds*j) / float64(len(groups))
	var chi2 float64
	for _, c := range count {
		chi2 += (c - expected) * (c - expected) / expected
	}
	if chi2 > 37.4 {
		t.Errorf("chi-square %.1f over counts %v", chi2, count)
	}
}

func TestSeedsDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for _, node := range []string{"node_0", "node_1", "node_10"} {
		for round := range 50 {
			for _, p := range []Purpose{PurposeQuestion, PurposeGenerate, PurposeExternals} {
				for i := range 8 {
					s := Seed(42, node, round, p, i)
					if seen[s] {
						t.Fatalf("seed of %s %d %s %d comes twice", node, round, p, i)
					}
					seen[s] = true
				}
			}
		}
	}
	if Seed(42, "node_0", 0, PurposeGenerate, 0) == Seed(43, "node_0", 0, PurposeGenerate, 0) {
		t.Error("the experiment's seed has no effect")
	}
	// Seeds must not change, because a run must be repeatable with a later version.
	if got := Seed(42, "node_0", 7, PurposeGenerate, 0); got != 0x4e00ae788059e19e {
		t.Errorf("seed is %#x: the stream of every earlier run changed", got)
	}
	if s := EngineSeed(42, "node_0", 7, PurposeGenerate, 0); s < 0 || s >= 1<<53 {
		t.Errorf("engine seed %d out of range", s)
	}
}

func TestPositiveLeavesWhatIsBetterThanTheMean(t *testing.T) {
	advantages, err := Advantages([]float64{1, 0, 0, 0.5}, ScaleNone)
	if want := []float64{0.625, 0, 0, 0.125}; err != nil || !slices.Equal(Positive(advantages), want) {
		t.Fatalf("got %v, %v; want %v", advantages, err, want)
	}
}
