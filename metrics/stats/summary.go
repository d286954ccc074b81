package stats

import (
	"github.com/sapo-swarm/swarm/metrics/store"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// EdgeWindow is the number of rounds that a Summary averages at either end.
const EdgeWindow = 5

// Summary is the result of a run: the last event of `swarm up -o json` and the final output for users.
type Summary struct {
	Status
	FirstReward *float64     `json:"first_reward"` // mean over nodes and the first EdgeRounds rounds
	LastReward  *float64     `json:"last_reward"`  // the same over the last rounds
	EdgeRounds  int          `json:"edge_rounds"`  // EdgeWindow, or less in a run shorter than twice that
	PerNode     []NodeReward `json:"per_node"`
}

// NewSummary adds to a run's status the figures that need all of its rounds.
func NewSummary(status Status, rounds []store.RoundReward) Summary {
	s := Summary{Status: status, PerNode: PerNode(rounds)}
	swarm := SwarmRounds(rounds)
	rewards := make([]float64, len(swarm))
	for i, r := range swarm {
		rewards[i] = r.Reward
	}
	s.EdgeRounds = min(EdgeWindow, max(1, len(rewards)/2), len(rewards))
	s.FirstReward = Optional(sample.Mean(rewards[:s.EdgeRounds]))
	s.LastReward = Optional(sample.Mean(rewards[len(rewards)-s.EdgeRounds:]))
	return s
}
