package sapo

import (
	"math/rand/v2"
	"slices"
)

// Group is the reference to one rollout of the pool: the peer it came from and its place in that peer's batch.
type Group struct {
	Peer    int
	Rollout int
	Rewards []float64 // as this node scored them itself
}

// Filter keeps the groups with a non-zero advantage (paper §4: they are removed before the draw), in order.
func Filter(pool []Group) []Group {
	return slices.DeleteFunc(slices.Clone(pool), func(g Group) bool { return AllEqual(g.Rewards) })
}

// DrawExternals draws j groups uniformly without replacement from the pool (all of it when it holds fewer), as a function of
// the pool's order and the seed. The result is in the order drawn.
func DrawExternals(pool []Group, j int, seed uint64) []Group {
	if j <= 0 || len(pool) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 0x5357_4152_4d00))
	pool = slices.Clone(pool)
	j = min(j, len(pool))
	for i := range j {
		k := i + rng.IntN(len(pool)-i)
		pool[i], pool[k] = pool[k], pool[i]
	}
	return pool[:j]
}
