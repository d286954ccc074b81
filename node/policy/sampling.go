package policy

import "slices"

// WithSampling returns the update with sampling log-probabilities for its first sequences, one list each. A
// sequence with no list, or that an engine does not compute, gets none.
func (p UpdateParams) WithSampling(logprobs [][]float64) UpdateParams {
	p.Sequences = slices.Clone(p.Sequences)
	for i := range min(len(logprobs), len(p.Sequences)) {
		s := &p.Sequences[i]
		if len(logprobs[i]) == len(s.Completion) && (s.Advantage != 0 || p.Beta != 0) {
			s.SamplingLogprobs = SinglePrecision(logprobs[i])
		}
	}
	return p
}

// SinglePrecision rounds to float32. This does not change numbers that an engine computed in float32. nil stays
// nil.
func SinglePrecision(list []float64) []float32 {
	if list == nil {
		return nil
	}
	short := make([]float32, len(list))
	for i, v := range list {
		short[i] = float32(v)
	}
	return short
}
