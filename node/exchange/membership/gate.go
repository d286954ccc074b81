package membership

import (
	"github.com/sapo-swarm/swarm/node/exchange"
)

// offerWindow is how many rounds behind its newest a node may still share, for batches kept during an outage.
const offerWindow = 64

// gate checks what the experiment allows a node to share. It is pure.
type gate struct {
	rounds      int // of the experiment
	rollouts    int // maximum per round
	completions int // maximum per rollout: G
	tokens      int // max_completion_length; 0: unknown
	ahead       int // rounds ahead of the swarm
	async       bool
}

// place is the part of an assignment that the gate checks.
type place struct{ from, round, offered, newest int }

// check makes all checks that don't need the content.
func (g gate) check(p place, offer Offer) *Refusal {
	newest := p.newest
	if g.async { // nodes may be far apart: each continues where it is
		newest = max(newest, p.round)
	}
	switch {
	case len(offer.Data) > exchange.MaxBatchBytes:
		return Refuse(CodeMalformed, "rollouts of %s: %d bytes, more than %d", offer.Node, len(offer.Data), exchange.MaxBatchBytes)
	case len(offer.Data) > g.size():
		return Refuse(CodeRollouts, "rollouts of %s: %d bytes, but the experiment's sizes allow only %d", offer.Node, len(offer.Data), g.size())
	case offer.Round < 0 || offer.Round >= g.rounds:
		return Refuse(CodeRollouts, "rollouts of %s: round %d does not exist: rounds are 0 to %d", offer.Node, offer.Round, g.rounds-1)
	case offer.Round < p.from:
		return Refuse(CodeRollouts, "rollouts of %s: round %d is before its first, %d", offer.Node, offer.Round, p.from)
	case offer.Round > newest+g.ahead:
		return Refuse(CodeRollouts, "rollouts of %s: round %d is too far ahead of the swarm, which is in %d", offer.Node, offer.Round, p.newest)
	case offer.Round < p.offered-offerWindow:
		return Refuse(CodeRollouts, "rollouts of %s: round %d is too old, because the node has shared round %d", offer.Node, offer.Round, p.offered)
	}
	return nil
}

// Estimates of a batch's size in bytes. A token has a maximum text size, and an average size with id and
// log-probability. A completion, a question with answer and metadata, and the batch add their own parts.
const (
	longestToken     = 256
	tokenBytes       = 48
	completionBytes  = 1 << 10
	questionBytes    = 32 << 10
	batchHeaderBytes = 4 << 10
)

// size returns the maximum bytes of a batch under the experiment's settings.
func (g gate) size() int {
	if g.tokens == 0 {
		return exchange.MaxBatchBytes
	}
	return min(exchange.MaxBatchBytes, batchHeaderBytes+g.rollouts*(questionBytes+g.completions*(completionBytes+tokenBytes*g.tokens)))
}

// open decodes the batch and checks it against the experiment's settings.
func (g gate) open(offer Offer) *Refusal {
	batch, err := exchange.Decode(offer.Data, offer.Node, offer.Round)
	if err != nil {
		return Refuse(CodeMalformed, "rollouts of %s, round %d: %.300s", offer.Node, offer.Round, Tidy(err.Error(), MaxTextBytes))
	}
	if len(batch.Rollouts) > g.rollouts {
		return Refuse(CodeRollouts, "rollouts of %s, round %d: %d, but the experiment has %d", offer.Node, offer.Round, len(batch.Rollouts), g.rollouts)
	}
	for i, r := range batch.Rollouts {
		if len(r.Completions) > g.completions {
			return Refuse(CodeRollouts, "rollouts of %s, round %d: rollout %d has %d completions, but the experiment has %d",
				offer.Node, offer.Round, i, len(r.Completions), g.completions)
		}
		for _, c := range r.Completions {
			if g.tokens > 0 && (len(c.Text) > completionBytes+longestToken*g.tokens || len(c.Tokens) > g.tokens || len(c.Logprobs) > g.tokens+1) {
				return Refuse(CodeRollouts, "rollouts of %s, round %d: a completion of rollout %d is longer than max_completion_length (%d) allows",
					offer.Node, offer.Round, i, g.tokens)
			}
		}
	}
	return nil
}
