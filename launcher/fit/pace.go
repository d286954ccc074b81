package fit

import "github.com/sapo-swarm/swarm/configs"

// Work is what one node computes in a round.
type Work struct {
	Own, External, Generations int // the paper's I, J and G
	PromptTokens, NewTokens    int // of a sequence
	Iterations                 int // optimizer steps on a round's batch
}

// completions are those that a node decodes in a round.
func (w Work) completions() float64 { return float64(w.Own * w.Generations) }

// trained are the sequences that go through an update, as often as they do.
func (w Work) trained() float64 {
	return float64((w.Own + w.External) * w.Generations * max(1, w.Iterations))
}

// tokens are those that an update computes, as often as it does.
func (w Work) tokens() float64 {
	groups := (w.Own + w.External) * max(1, w.Iterations)
	return float64(groups * (w.PromptTokens + w.Generations*w.NewTokens))
}

// Pace is what a round of all nodes of a host takes, in seconds by phase.
type Pace struct {
	Generate float64 `json:"generate_seconds"` // grows with I·G
	Update   float64 `json:"update_seconds"`   // grows with (I+J)·G and the optimizer's steps
	Rest     float64 `json:"rest_seconds"`     // scoring, sharing, waiting
}

// Seconds are those of a round.
func (p Pace) Seconds() float64 { return p.Generate + p.Update + p.Rest }

// For is the pace of other work on the same host, from one that is known: phases grow with their sequences, and
// everything with the nodes, which share the device. Sequences count as equally long.
func (p Pace) For(known, wanted Work, knownNodes, wantedNodes int) Pace {
	nodes := float64(wantedNodes) / float64(max(1, knownNodes))
	return Pace{
		Generate: p.Generate * nodes * wanted.completions() / max(1, known.completions()),
		Update:   p.Update * nodes * wanted.trained() / max(1, known.trained()),
		Rest:     p.Rest * nodes,
	}
}

// Evaluation is what completions beside those of a round's work take on all nodes, in seconds.
func (p Pace) Evaluation(w Work, completions int) float64 {
	return p.Generate * float64(completions) / max(1, w.completions())
}

// Mean is the pace of nodes of several kinds: of each kind's pace, were all nodes of it, by the kinds' shares, which
// sum to 1.
func Mean(paces []Pace, shares []float64) Pace {
	var out Pace
	for i, p := range paces {
		out.Generate += p.Generate * shares[i]
		out.Update += p.Update * shares[i]
		out.Rest += p.Rest * shares[i]
	}
	return out
}

// Assumptions of FirstPrinciples, which whoever shows its result states.
const (
	AssumedPrompt    = 256  // tokens of a prompt: the system prompt and a question of the paper's tasks
	AssumedBandwidth = 0.82 // of a card's memory bandwidth while decoding
)

// FirstPrinciples predicts the pace of nodes that take turns on a card, from what must be computed and moved:
//
//	decoding  bytes of a step = weights + the KV cache of all completions at their mean length; steps = NewTokens; over AssumedBandwidth of the
//	          card's bandwidth; at most batch completions are decoded together (0: all)
//	prefill   2 FLOPs a parameter and token of the questions, which share it
//	update    6 FLOPs a parameter and token (forward 2, backward 4) of all completions trained on, and of each one's prompt once for all of its
//	          completions; over the card's use of its peak
//
// It is a floor for an engine that neither starts kernels too slowly nor waits: scoring, sharing and checkpoints are
// left out.
func FirstPrinciples(m configs.Shape, precision string, c Card, w Work, nodes, batch int) Pace {
	size := int64(4) // bytes of a weight, and of a key or value
	if precision == "bf16" || precision == "fp16" {
		size = 2
	}
	all := w.Own * w.Generations
	if batch <= 0 || batch > all {
		batch = max(1, all)
	}
	kv := 2 * int64(m.Layers*m.KeyValueHeads()*m.HeadWidth()) * size // bytes a token
	mean := float64(w.PromptTokens) + float64(w.NewTokens)/2
	calls := float64(divide(all, batch))
	bytes := calls*float64(w.NewTokens)*float64(m.Parameters*size) + float64(w.NewTokens)*w.completions()*mean*float64(kv)
	peak := c.Peak(precision)
	prefill := 2 * float64(m.Parameters) * float64(w.Own*w.PromptTokens) / peak
	update := 6 * float64(m.Parameters) * w.tokens() / peak
	n := float64(nodes)
	return Pace{Generate: n * (bytes/(AssumedBandwidth*c.Bandwidth) + prefill), Update: n * update}
}
