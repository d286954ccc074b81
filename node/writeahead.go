package node

import (
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/policy"
)

// Journal is the interface of a round's write-ahead log. *journal.Journal implements it.
type Journal interface {
	// Generated logs the rollouts that the node is about to share.
	Generated(round int, record journal.Generated) error
	// Trained logs the training set of the coming update. The record is on disk when Trained returns.
	Trained(round int, record journal.Trained) error
}

var _ Journal = (*journal.Journal)(nil)

// RecoveredRound is a round whose completions a previous process of the node logged, without a training set.
type RecoveredRound struct {
	Round     int
	Generated *journal.Generated
}

// logGenerated builds the round's batch and logs it with its tokens before the node shares it.
func (n *Node) logGenerated(round int, groups []group, m *measured) (exchange.Batch, error) {
	batch := n.batch(round, groups)
	if n.Journal == nil || n.recalled(round) {
		return batch, nil
	}
	began := time.Now()
	data, err := exchange.Encode(batch)
	if err != nil {
		return batch, fmt.Errorf("round %d: %w", round, err)
	}
	record := journal.Generated{Seed: n.generateSeed(round), Entropy: m.entropy, Seconds: m.seconds.generate, Batch: data}
	if record.Split, err = n.splitState(); err != nil {
		return batch, fmt.Errorf("round %d: %w", round, err)
	}
	for _, g := range groups {
		record.Completions = append(record.Completions, g.completions...)
		record.Terminated = append(record.Terminated, g.terminated...)
		if n.Config.KeepsLogprobs() {
			record.Logprobs = append(record.Logprobs, g.logprobs...)
		} else {
			record.Sampled = append(record.Sampled, n.logSampled(g)...)
		}
	}
	err = n.Journal.Generated(round, record)
	m.seconds.journal += time.Since(began).Seconds()
	return batch, err
}

// logTrained logs the round's training set before its update. The round's journal time includes the write, but the
// logged report cannot.
func (n *Node) logTrained(round int, training policy.UpdateParams, external []group, m *measured) error {
	if n.Journal == nil {
		return nil
	}
	began := time.Now()
	record := journal.Trained{Update: training, Report: m.report()}
	for _, g := range external {
		if n.Config.Async() || g.origin.Round != round { // it may arrive again
			record.Externals = append(record.Externals, g.origin)
		}
	}
	err := n.Journal.Trained(round, record)
	m.seconds.journal += time.Since(began).Seconds()
	return err
}

// recall returns the completions that a previous process generated in the round, if their seed and number are those
// wanted.
func (n *Node) recall(round int, params policy.GenerateParams) (result policy.GenerateResult, seconds float64, logged bool) {
	if !n.recalled(round) {
		return result, 0, false
	}
	g := n.Mode.Recovered.Generated
	want, known := len(params.Prompts)*params.NumGenerations, g.Known()
	if len(known) != want {
		known = nil
	}
	if g.Seed != params.Seed || len(g.Completions) != want || len(g.Terminated) != want || n.Config.KeepsLogprobs() && len(g.Logprobs) != want {
		n.Logger.Warn("logged completions not used", "round", round, "seed", g.Seed, "completions", len(g.Completions), "wanted", want)
		n.Mode.Recovered = nil
		return result, 0, false
	}
	return policy.GenerateResult{
		Completions: g.Completions, Terminated: g.Terminated, Logprobs: known, Entropy: g.Entropy, Seconds: g.Seconds,
	}, g.Seconds, true
}

func (n *Node) recalled(round int) bool {
	return n.Mode.Recovered != nil && n.Mode.Recovered.Round == round
}
