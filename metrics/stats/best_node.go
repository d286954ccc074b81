package stats

import (
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Criteria for a Choice.
const (
	ByHeldOut = "held_out_reward" // after Round rounds
	ByRecent  = "recent_reward"   // mean over the recent rounds, of which Round is the last
	ByOrder   = "first"           // no reward is known
)

// Choice is a node of a run and the criterion for choosing it.
type Choice struct {
	Node   string
	By     string
	Reward float64
	Round  int
}

// BestNode chooses one of the nodes in among, which must not be empty. It takes the node with the highest held-out
// reward at the newest evaluated round. Round 0 does not count. Without such an evaluation it takes the node with the
// highest mean reward in recent, else the first node. Ties go to the node that is earlier in among. Non-finite rewards
// count as 0.
func BestNode(among []string, evals []store.NodeEval, recent []store.RoundReward) Choice {
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
			heldOut[e.Node] = EvalReward(e.Questions, e.Generations)
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
		means[node] = meanReward(sums[node], count)
	}
	if best, ok := highest(among, heldOut); ok {
		return Choice{best, ByHeldOut, heldOut[best], newest}
	}
	if best, ok := highest(among, means); ok {
		return Choice{best, ByRecent, means[best], last}
	}
	return Choice{Node: among[0], By: ByOrder}
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
