// Package node is one SAPO agent: a policy, its tasks and its share in the swarm. Node.Round (round.go) is the paper's
// Algorithm 1, step by step; the rest of the package is what keeps it alive in a process of its own (link, memory,
// checkpoint).
//
// It owns its model's training. It takes its assignment from the launcher over stdin and never imports it.
package node

import (
	"context"
	"errors"
	"log/slog"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// ErrStopped is returned by Round when the node was asked to stop before the round's update: the round did not happen.
var ErrStopped = errors.New("stopped by request")

// Policy is the model as a round needs it; policy.Engine is the real one.
type Policy interface {
	Generate(context.Context, policy.GenerateParams) (policy.GenerateResult, error)
	Update(context.Context, policy.UpdateParams) (policy.UpdateResult, error)
	Logprobs(context.Context, policy.LogprobsParams) (policy.LogprobsResult, error)
}

// Host is what a node asks of the process that supervises it.
type Host interface {
	// Lease blocks until the node may compute and returns the function that ends the lease. It returns ErrStopped when
	// the node is to stop instead.
	Lease(ctx context.Context, phase string) (release func(), err error)
	// State tells what the node does now.
	State(state event.State, round int)
	// Members are the nodes of the swarm, this one included, and a channel that is closed when that changes.
	Members() (members []protocol.Member, changed <-chan struct{})
	// Stopping is closed when the node has been asked to stop.
	Stopping() <-chan struct{}
}

// Node is one agent. Its methods are called from one goroutine.
type Node struct {
	ID      string
	Config  configs.Config
	Policy  Policy
	Tasks   *task.Set
	Tokens  tokenizer.Tokenizer
	Swarm   exchange.Exchange
	Host    Host
	Logger  *slog.Logger
	Context int          // the model's context length in tokens
	OnGPU   bool         // the policy computes on one; only what is told depends on it
	Journal Journal      // nil: nothing is logged
	HeldOut *HeldOut     // questions never to train on, whatever their metadata say; nil: only those that task.HeldOut tells
	Warn    func(string) // tells the user; nil: nobody listens

	Validation *HeldOut // questions that a bandit judges splits by; nil where there is none

	Mode Mode // how it departs from the algorithm

	outage   outage         // of a remote node
	rollouts recentRollouts // of its peers
	splits   *splits

	disagrees bool // sampler and trainer did in the newest round that could tell
}

// Mode is how a node departs from Algorithm 1. The zero value is a node of the coordinator's own host that trains, with
// nothing to recover.
type Mode struct {
	GenerateOnly bool // it shares its rollouts and learns from nobody's
	Remote       bool // of another host than the coordinator: it goes on alone while it can't reach the swarm

	Recovered *RecoveredRound            // what a previous process of the node generated in the round it died in; nil: nothing
	Decided   func(round int) sapo.Split // a round's I and J, where they have been decided and are adaptive; nil: the node decides
}
