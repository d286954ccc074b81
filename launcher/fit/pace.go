package fit

import "github.com/sapo-swarm/swarm/configs"

// Work is the computation of one node in a round.
type Work struct {
	Own, External, Generations int // the paper's I, J and G
	PromptTokens, NewTokens    int // of a sequence
	Iterations                 int // optimizer steps on a round's batch

	// Flat is the share of own groups whose rewards are all equal. An update skips them. Drawn externals have passed
	// the filter and are not flat. 0 assumes that every group trains.
	Flat float64
}

// groups returns the number of groups that an update computes, counted once per iteration.
func (w Work) groups() float64 {
	return (float64(w.Own)*(1-w.Flat) + float64(w.External)) * float64(max(1, w.Iterations))
}

// completions returns the number of completions that a node decodes in a round.
func (w Work) completions() float64 { return float64(w.Own * w.Generations) }

// trained returns the number of sequences that pass through an update, counted once per iteration.
func (w Work) trained() float64 {
	return w.groups() * float64(w.Generations)
}

// tokens returns the number of tokens that an update computes, counted once per iteration.
func (w Work) tokens() float64 {
	return w.groups() * float64(w.PromptTokens+w.Generations*w.NewTokens)
}

// Pace is the duration of a round of all nodes of a host, in seconds by phase.
type Pace struct {
	Generate float64 `json:"generate_seconds"` // grows with I·G
	Update   float64 `json:"update_seconds"`   // grows with the rows that train and the optimizer's steps
	Rest     float64 `json:"rest_seconds"`     // scoring, sharing, waiting
}

// Seconds returns the duration of a round.
func (p Pace) Seconds() float64 { return p.Generate + p.Update + p.Rest }

// For returns the pace of other work on the same host, scaled from a known pace. Phases grow with their sequences,
// and everything grows with the number of nodes, because they share the device. For assumes sequences of equal
// length.
func (p Pace) For(known, wanted Work, knownNodes, wantedNodes int) Pace {
	nodes := float64(wantedNodes) / float64(max(1, knownNodes))
	return Pace{
		Generate: p.Generate * nodes * wanted.completions() / max(1, known.completions()),
		Update:   p.Update * nodes * wanted.trained() / max(1, known.trained()),
		Rest:     p.Rest * nodes,
	}
}

// Evaluation returns the seconds for decoding completions on all nodes outside a round.
func (p Pace) Evaluation(w Work, completions int) float64 {
	return p.Generate * float64(completions) / max(1, w.completions())
}

// Mean returns the average of the paces of several kinds of node, weighted by their shares. Each pace assumes that
// all nodes are of its kind. The shares sum to 1.
func Mean(paces []Pace, shares []float64) Pace {
	var out Pace
	for i, p := range paces {
		out.Generate += p.Generate * shares[i]
		out.Update += p.Update * shares[i]
		out.Rest += p.Rest * shares[i]
	}
	return out
}

// Assumptions of FirstPrinciples. Callers that show its result must state them.
const (
	AssumedPrompt    = 256  // tokens of a prompt: system prompt and question of the paper's tasks
	AssumedBandwidth = 0.82 // used part of a card's memory bandwidth while decoding
)

// FirstPrinciples predicts the pace of nodes that take turns on a card, from the required computation and memory
// traffic:
//
//	decoding  bytes of a step = weights + the KV cache of all completions at their mean length; steps = NewTokens;
//	          over AssumedBandwidth of the card's bandwidth; decodes at most batch completions together (0: all)
//	prefill   2 FLOPs per parameter and token of the questions, computed once per question
//	update    6 FLOPs per parameter and token (forward 2, backward 4) of all trained completions, and of each prompt
//	          once for all of its completions; over the part of the card's peak that training reaches
//
// The result is a lower bound for an engine without kernel launch overhead and idle time. It leaves out scoring,
// sharing and checkpoints.
func FirstPrinciples(m configs.Shape, precision string, c Card, w Work, nodes, batch int) Pace {
	size := int64(4) // bytes of a weight
	if precision == "bf16" || precision == "fp16" {
		size = 2
	}
	all := w.Own * w.Generations
	if batch <= 0 || batch > all {
		batch = max(1, all)
	}
	kv := 2 * int64(m.Layers*m.KeyValueHeads()*m.HeadWidth()) * keyBytes // bytes per token
	mean := float64(w.PromptTokens) + float64(w.NewTokens)/2
	calls := float64(divide(all, batch))
	bytes := calls*float64(w.NewTokens)*float64(m.Parameters*size) + float64(w.NewTokens)*w.completions()*mean*float64(kv)
	peak := c.Peak(precision)
	prefill := 2 * float64(m.Parameters) * float64(w.Own*w.PromptTokens) / peak
	update := 6 * float64(m.Parameters) * w.tokens() / peak
	n := float64(nodes)
	return Pace{Generate: n * (bytes/(AssumedBandwidth*c.Bandwidth) + prefill), Update: n * update}
}
