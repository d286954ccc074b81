package sapo

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// crowd returns a pool in which peer i has counts[i] groups.
func crowd(counts []int) []Group {
	var pool []Group
	for peer, n := range counts {
		for k := range n {
			pool = append(pool, Group{Peer: peer, Rollout: k})
		}
	}
	return pool
}

// A fair draw takes j distinct groups, or all. No peer has two more than another peer with groups left. The result
// is a function of the seed.
func TestDrawFairTakesTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 12), 0, 8).Draw(t, "counts")
		j, seed := rapid.IntRange(0, 20).Draw(t, "j"), rapid.Uint64().Draw(t, "seed")
		pool := crowd(counts)
		before := slices.Clone(pool)
		drawn := DrawFair(pool, j, seed)
		if len(drawn) != min(j, len(pool)) {
			t.Fatalf("drew %d of %d, wanted %d", len(drawn), len(pool), j)
		}
		seen, used := map[[2]int]bool{}, make([]int, len(counts))
		for _, g := range drawn {
			if key := [2]int{g.Peer, g.Rollout}; seen[key] {
				t.Fatalf("%v twice", key)
			} else {
				seen[key] = true
			}
			used[g.Peer]++
		}
		for a := range counts {
			for b := range counts {
				if used[a] > used[b]+1 && used[b] < counts[b] {
					t.Fatalf("peer %d gave %d, peer %d %d of %d", a, used[a], b, used[b], counts[b])
				}
			}
		}
		again := DrawFair(pool, j, seed)
		for i := range drawn {
			if drawn[i].Peer != again[i].Peer || drawn[i].Rollout != again[i].Rollout {
				t.Fatal("the same seed drew differently")
			}
		}
		for i := range pool {
			if pool[i].Peer != before[i].Peer || pool[i].Rollout != before[i].Rollout {
				t.Fatal("the pool was changed")
			}
		}
	})
}

// A peer with j groups gains nothing from a hundred times as many: the same peers are drawn in the same turns.
func TestDrawFairIsDeafToFloods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, seed := rapid.IntRange(1, 10).Draw(t, "j"), rapid.Uint64().Draw(t, "seed")
		counts := rapid.SliceOfN(rapid.IntRange(1, 10), 1, 8).Draw(t, "counts")
		flooder := rapid.IntRange(0, len(counts)-1).Draw(t, "flooder")
		peers := func(n int) []int {
			counts[flooder] = n
			var list []int
			for _, g := range DrawFair(crowd(counts), j, seed) {
				list = append(list, g.Peer)
			}
			return list
		}
		if calm, flood := peers(j), peers(100*j); !slices.Equal(calm, flood) {
			t.Fatalf("drawn %v, and in a flood %v", calm, flood)
		}
	})
}

// Within a peer every group is equally likely. So is every peer if there are more peers than draws. Chi-square
// stays below its 99.99 % quantile for these fixed seeds (11 degrees of freedom: 37.4; 39: 81.6).
func TestDrawFairIsUniform(t *testing.T) {
	counts := make([]int, 12)
	for i := range counts {
		counts[i] = 1 + 5*i // any number of groups
	}
	pool := crowd(counts)
	peers, within := make([]float64, 12), make([]float64, 40)
	const rounds, j = 6000, 4
	for r := range rounds {
		for _, g := range DrawFair(pool, j, Seed(1, "node_0", r, PurposeExternals, 0)) {
			peers[g.Peer]++
		}
		for _, g := range DrawFair(crowd([]int{40}), j, Seed(1, "node_1", r, PurposeExternals, 0)) {
			within[g.Rollout]++
		}
	}
	if x := chiSquare(peers); x > 37.4 {
		t.Errorf("peers: chi-square %.1f over %v", x, peers)
	}
	if x := chiSquare(within); x > 81.6 {
		t.Errorf("groups of a peer: chi-square %.1f over %v", x, within)
	}
}

func chiSquare(counts []float64) float64 {
	expected := Mean(counts)
	var x float64
	for _, c := range counts {
		x += (c - expected) * (c - expected) / expected
	}
	return x
}

func crew(n int) []string {
	peers := make([]string, n)
	for i := range peers {
		peers[i] = fmt.Sprintf("node_%d", i)
	}
	return peers
}

// DrawPeers returns n distinct peers in their order. A peer that joins or leaves changes at most one of them.
func TestDrawPeersIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		peers := crew(rapid.IntRange(0, 100).Draw(t, "peers"))
		n, seed := rapid.IntRange(0, 70).Draw(t, "n"), rapid.Uint64().Draw(t, "seed")
		drawn := DrawPeers(peers, n, seed)
		if n == 0 || len(peers) <= n {
			if !slices.Equal(drawn, peers) {
				t.Fatalf("drew %v of %v", drawn, peers)
			}
			return
		}
		last := -1
		for _, peer := range drawn {
			at := slices.Index(peers, peer)
			if at <= last {
				t.Fatalf("not in order: %v", drawn)
			}
			last = at
		}
		gone := rapid.IntRange(0, len(peers)-1).Draw(t, "gone")
		fewer := DrawPeers(slices.Delete(slices.Clone(peers), gone, gone+1), n, seed)
		others := 0
		for _, peer := range fewer {
			if !slices.Contains(drawn, peer) {
				others++
			}
		}
		if len(drawn) != n || len(fewer) != n || others > 1 || others == 1 && !slices.Contains(drawn, peers[gone]) {
			t.Fatalf("drawn %v, without %s %v", drawn, peers[gone], fewer)
		}
	})
}

// Over rounds every peer is drawn about equally often, and so is every pair of neighbors: chi-square stays below
// its 99.99 % quantile (199 degrees of freedom: 284).
func TestDrawPeersIsUniform(t *testing.T) {
	peers := crew(200)
	count, pairs := map[string]float64{}, make([]float64, 200)
	const rounds, n = 4000, 64
	for r := range rounds {
		in := map[string]bool{}
		for _, peer := range DrawPeers(peers, n, Seed(1, "node_x", r, PurposePeers, 0)) {
			count[peer]++
			in[peer] = true
		}
		for i := range peers {
			if in[peers[i]] && in[peers[(i+1)%200]] {
				pairs[i]++
			}
		}
	}
	var counts []float64
	for _, peer := range peers {
		counts = append(counts, count[peer])
	}
	if x := chiSquare(counts); x > 284 {
		t.Errorf("chi-square %.1f", x)
	}
	if x := chiSquare(pairs); x > 284 {
		t.Errorf("pairs: chi-square %.1f", x)
	}
}
