package sapo

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
)

// Group refers to one rollout of the pool: its peer, and its index in that peer's batch.
type Group struct {
	Peer    int
	Rollout int
	Rewards []float64 // as scored by this node
}

// Filter keeps the groups with a non-zero advantage (paper §4: they are removed before the draw), in order.
func Filter(pool []Group) []Group {
	return slices.DeleteFunc(slices.Clone(pool), func(g Group) bool { return AllEqual(g.Rewards) })
}

// DrawExternals draws j groups uniformly without replacement from the pool, or all if it holds fewer. The result is
// a function of the pool's order and the seed, in the order drawn.
func DrawExternals(pool []Group, j int, seed uint64) []Group {
	if j <= 0 || len(pool) == 0 {
		return nil
	}
	return shuffle(slices.Clone(pool), j, rand.New(rand.NewPCG(seed, 0x5357_4152_4d00)))
}

// DrawFair draws j groups without replacement, fairly over peers. In each turn every peer with groups left
// contributes one random group, in a random order of peers. A peer gains nothing from more than j groups. If a peer
// has fewer than its share, the others share the rest. The result is a function of the pool's order and the seed.
// The choice of peers does not depend on a peer's number of groups beyond j.
func DrawFair(pool []Group, j int, seed uint64) []Group {
	var peers []int
	byPeer := map[int][]Group{}
	for _, g := range pool {
		if byPeer[g.Peer] == nil {
			peers = append(peers, g.Peer)
		}
		byPeer[g.Peer] = append(byPeer[g.Peer], g)
	}
	turns := rand.New(rand.NewPCG(seed, 0x5357_4152_4d01))
	within := rand.New(rand.NewPCG(seed, 0x5357_4152_4d02)) // separate, so that a peer's groups do not change the turns
	var drawn []Group
	for len(drawn) < j && len(peers) > 0 {
		for _, peer := range shuffle(slices.Clone(peers), len(peers), turns) {
			if len(drawn) == j {
				break
			}
			left := byPeer[peer]
			shuffle(left, 1, within)
			drawn = append(drawn, left[0])
			byPeer[peer] = left[1:]
		}
		peers = slices.DeleteFunc(peers, func(p int) bool { return len(byPeer[p]) == 0 })
	}
	return drawn
}

// shuffle moves n random elements of a list to its front, in random order, and returns them. It returns all if the
// list is shorter.
func shuffle[T any](list []T, n int, rng *rand.Rand) []T {
	n = min(n, len(list))
	for i := range n {
		k := i + rng.IntN(len(list)-i)
		list[i], list[k] = list[k], list[i]
	}
	return list[:n]
}

// DrawPeers draws n of the peers and keeps their order. It returns all if there are no more than n, or n is 0. Over
// seeds, each peer is drawn equally often. A peer that joins or leaves changes at most one of those drawn.
func DrawPeers(peers []string, n int, seed uint64) []string {
	if n <= 0 || len(peers) <= n {
		return peers
	}
	type ticket struct {
		peer  int
		score uint64
	}
	tickets := make([]ticket, len(peers))
	for i, peer := range peers {
		hash := fnv.New64a()
		hash.Write([]byte(peer))
		tickets[i] = ticket{i, mix(seed ^ mix(hash.Sum64()))}
	}
	slices.SortFunc(tickets, func(a, b ticket) int { return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.peer, b.peer)) })
	tickets = tickets[:n]
	slices.SortFunc(tickets, func(a, b ticket) int { return a.peer - b.peer })
	drawn := make([]string, n)
	for i, t := range tickets {
		drawn[i] = peers[t.peer]
	}
	return drawn
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): any change of its input flips half of
// its bits on average.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// LeastLikely is the lowest mean log-probability of window consecutive tokens. Tokens missing from a shorter
// completion count as certain.
func LeastLikely(logprobs []float64, window int) float64 {
	least, sum := 0.0, 0.0
	for i, p := range logprobs {
		if sum += p; i >= window {
			sum -= logprobs[i-window]
		}
		least = min(least, sum)
	}
	return least / float64(window)
}

// DrawTop takes the j groups with the highest total reward, ties in random order, and never a group without any
// reward. This is the rule of GenRL's reasoning-gym example. The result is a function of the pool's order and the
// seed, the best first.
func DrawTop(pool []Group, j int, seed uint64) []Group {
	total := func(g Group) (sum float64) {
		for _, r := range g.Rewards {
			sum += r
		}
		return sum
	}
	list := slices.DeleteFunc(slices.Clone(pool), func(g Group) bool { return total(g) <= 0 })
	shuffle(list, len(list), rand.New(rand.NewPCG(seed, 0x5357_4152_4d04)))
	slices.SortStableFunc(list, func(a, b Group) int { return cmp.Compare(total(b), total(a)) })
	return list[:max(0, min(j, len(list)))]
}

// DrawWeighted draws j groups without replacement, weighted by their mean reward. The first draw is proportional to
// the weights, the next one to the weights that are left, and so on. Groups of weight zero come last, in random
// order, if the others do not suffice. The result is a function of the pool's order and the seed, in the order
// drawn.
func DrawWeighted(pool []Group, j int, seed uint64) []Group {
	if j <= 0 || len(pool) == 0 {
		return nil
	}
	// The order of exponential variables with these rates is such a draw (Efraimidis and Spirakis, Information
	// Processing Letters 97, 2006).
	type ticket struct {
		group      int
		time, luck float64
	}
	rng := rand.New(rand.NewPCG(seed, 0x5357_4152_4d03))
	tickets := make([]ticket, len(pool))
	for i, g := range pool {
		luck, weight := rng.ExpFloat64(), Mean(g.Rewards)
		tickets[i] = ticket{i, math.Inf(1), luck}
		if weight > 0 {
			tickets[i].time = luck / weight
		}
	}
	slices.SortStableFunc(tickets, func(a, b ticket) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.luck, b.luck))
	})
	drawn := make([]Group, min(j, len(pool)))
	for i := range drawn {
		drawn[i] = pool[tickets[i].group]
	}
	return drawn
}
