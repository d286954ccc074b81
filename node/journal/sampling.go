package journal

import "github.com/sapo-swarm/swarm/node/policy"

// Known is what the completions were sampled with, a list each, nil where it was not logged. It is nil where nothing
// was.
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

// Update is the round's training set as it was given to the engine: with what the node's own completions, which come
// first, were sampled with.
func (r Round) Update() policy.UpdateParams {
	if r.Generated == nil {
		return r.Trained.Update
	}
	return r.Trained.Update.WithSampling(r.Generated.Known())
}
