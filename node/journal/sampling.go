package journal

import "github.com/sapo-swarm/swarm/node/policy"

// Known returns the log-probabilities with which the completions were sampled, one list per completion, nil for a list
// that was not logged. It returns nil if none was logged.
func (g *Generated) Known() [][]float64 {
	if g.Logprobs != nil || g.Sampled == nil {
		return g.Logprobs
	}
	known := make([][]float64, len(g.Sampled))
	for i, list := range g.Sampled {
		if list == nil {
			continue
		}
		known[i] = make([]float64, len(list))
		for k, v := range list {
			known[i][k] = float64(v)
		}
	}
	return known
}

// Update returns the round's training set as the engine received it. It includes the sampling log-probabilities of the
// node's own completions, which come first.
func (r Round) Update() policy.UpdateParams {
	if r.Generated == nil {
		return r.Trained.Update
	}
	return r.Trained.Update.WithSampling(r.Generated.Known())
}
