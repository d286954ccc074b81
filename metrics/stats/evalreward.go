package stats

import (
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// EvalReward returns the mean reward per completion over questions with that many completions each. A non-finite sum
// counts as 0.
func EvalReward(questions []event.EvalQuestion, generations int) float64 {
	sum := 0.0
	for _, q := range questions {
		if units.Finite(q.RewardSum) {
			sum += q.RewardSum
		}
	}
	return meanReward(sum, len(questions)*generations)
}

// evalReward returns the mean reward of an evaluation over nodes, questions and completions, or nil if it has none.
func evalReward(e store.EvalTotal) *float64 {
	completions := e.Questions * e.Generations
	if completions == 0 {
		return nil
	}
	return Optional(meanReward(e.RewardSum, completions))
}

// meanReward returns sum / completions, or 0 if the result is not finite.
func meanReward(sum float64, completions int) float64 {
	if mean := sum / float64(completions); units.Finite(mean) {
		return mean
	}
	return 0
}
