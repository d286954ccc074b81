// Package pretrain makes base models. It trains a model from scratch, supervised, on question and answer text of a
// task set. The answers come in mixed phrasings. Only a small part uses the <answer> tags that verifiers read. The
// result therefore partly knows the answers and mostly misses the format, like a real base model.
//
// Supervised learning is the engine's ordinary update with every advantage 1. At ratio 1 the policy gradient equals
// the gradient of the log-likelihood.
package pretrain

import "math/rand/v2"

// phrasing is a way to state an answer without tags.
type phrasing struct{ before, after string }

// phrasings are the untagged phrasings, drawn uniformly. Each has as many bytes before the answer as the opening
// tag. The answer is at the same position in all of them, so that learning carries over between phrasings.
var phrasings = []phrasing{
	{"Answer: ", ""},
	{"Result: ", "."},
	{"I think ", "."},
	{"This is ", "."},
}

// phrase states an answer, with tags in a share of tagShare of the cases.
func phrase(rng *rand.Rand, answer string, tagShare float64) string {
	p := phrasing{"<answer>", "</answer>"}
	if rng.Float64() >= tagShare {
		p = phrasings[rng.IntN(len(phrasings))]
	}
	return p.before + answer + p.after
}
