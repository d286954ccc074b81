// Package pretrain makes base models: it trains a model from scratch, supervised, on question and answer text of a
// task set. The answers come in mixed phrasings of which only a small part uses the <answer> tags that verifiers read,
// so that the result half knows the answers and mostly misses the format, as a real base model does.
//
// Supervised learning is the engine's ordinary update with every advantage 1: with the ratio at 1, the policy gradient
// is then the gradient of the log-likelihood.
package pretrain

import (
	"encoding/json"
	"math/rand/v2"

	"github.com/sapo-swarm/swarm/node/task"
)

// phrasing is a way to state an answer without tags.
type phrasing struct{ before, after string }

// phrasings are what untagged answers draw from, uniformly. Each has as many bytes before the answer as the opening
// tag: the answer stands in one place, however it is put, so that what is learnt about it in one phrasing holds in all.
var phrasings = []phrasing{
	{"Answer: ", ""},
	{"Result: ", "."},
	{"I think ", "."},
	{"This is ", "."},
}

// phrase states an answer, with tags in tagShare of the cases.
func phrase(rng *rand.Rand, answer string, tagShare float64) string {
	p := phrasing{"<answer>", "</answer>"}
	if rng.Float64() >= tagShare {
		p = phrasings[rng.IntN(len(phrasings))]
	}
	return p.before + answer + p.after
}

// key is an item's answer as text: the answer, or for propositional_logic, which has none, the conclusion its generator
// found.
func key(item task.Item) (string, bool) {
	if item.Answer != nil {
		return *item.Answer, *item.Answer != ""
	}
	var meta struct {
		Example string `json:"example_answer"`
	}
	if err := json.Unmarshal(item.Metadata, &meta); err != nil || meta.Example == "" {
		return "", false
	}
	return meta.Example, true
}
