package recorded

import (
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// bestNode chooses one of the nodes in among, which must not be empty. It takes the node with the highest held-out
// reward at the newest evaluated round. Round 0 does not count. Without such an evaluation it takes the node with the
// highest mean reward in recent, else the first node. Ties go to the node that is earlier in among. Non-finite rewards
// count as 0.
func bestNode(among []string, evals []store.NodeEval, recent []store.RoundReward) evaluation.Choice {
	newest := 0
	member := map[string]bool{}
	for _, node := range among {
		member[node] = true
	}
	heldOut, sums, counts, last := map[string]float64{}, map[string]float64{}, map[string]int{}, 0
	for _, e := range evals {
		if member[e.Node] && len(e.Questions) > 0 && e.Generations > 0 {
			newest = max(newest, e.Round)
		}
	}
	for _, e := range evals {
		if e.Round == newest && newest > 0 && len(e.Questions) > 0 && e.Generations > 0 {
			heldOut[e.Node] = stats.EvalReward(e.Questions, e.Generations)
		}
	}
	for _, r := range recent {
		last = max(last, r.Round)
		if counts[r.Node]++; units.Finite(r.Reward) {
			sums[r.Node] += r.Reward
		}
	}
	means := map[string]float64{}
	for node, count := range counts {
		means[node] = sums[node] / float64(count)
	}
	if best, ok := highest(among, heldOut); ok {
		return evaluation.Choice{Node: best, By: evaluation.ByHeldOut, Reward: heldOut[best], Round: newest}
	}
	if best, ok := highest(among, means); ok {
		return evaluation.Choice{Node: best, By: evaluation.ByRecent, Reward: means[best], Round: last}
	}
	return evaluation.Choice{Node: among[0], By: evaluation.ByOrder}
}

// highest returns the first name with the highest value; ok is false if no name has a value.
func highest(names []string, values map[string]float64) (best string, ok bool) {
	for _, name := range names {
		if v, known := values[name]; known && (!ok || v > values[best]) {
			best, ok = name, true
		}
	}
	return best, ok
}
