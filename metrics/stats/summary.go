package stats

import (
	"github.com/sapo-swarm/swarm/metrics/store"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// EdgeWindow is how many rounds at either end a Summary takes the mean of.
const EdgeWindow = 5

// Summary is what a run came to: the last event of `swarm up -o json` and what people see at the end.
type Summary struct {
	Status
	FirstReward *float64     `json:"first_reward"` // mean over nodes and the first EdgeRounds rounds
	LastReward  *float64     `json:"last_reward"`  // same of the last ones
	EdgeRounds  int          `json:"edge_rounds"`  // EdgeWindow, fewer in a run shorter than twice that
	PerNode     []NodeReward `json:"per_node"`
}

// NewSummary adds to a run's status what takes all of its rounds.
func NewSummary(status Status, rounds []store.RoundReward) Summary {
	s := Summary{Status: status, PerNode: PerNode(rounds)}
	swarm := SwarmRounds(rounds)
	rewards := make([]float64, len(swarm))
	for i, r := range swarm {
		rewards[i] = r.Reward
	}
	s.EdgeRounds = min(EdgeWindow, max(1, len(rewards)/2), len(rewards))
	s.FirstReward = optional(sample.Mean(rewards[:s.EdgeRounds]))
	s.LastReward = optional(sample.Mean(rewards[len(rewards)-s.EdgeRounds:]))
	return s
}
