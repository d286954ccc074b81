// Package node is one SAPO agent: a policy, its tasks and its part in the swarm. Node.Round (round.go) is the
// paper's Algorithm 1, step by step. The rest of the package runs the agent in a process of its own (link, memory,
// checkpoint).
//
// The package owns the model's training. It receives its assignment from the launcher over stdin and never imports
// the launcher.
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

// ErrStopped is returned by Round if the node was asked to stop before the round's update. The round then has no
// effect.
var ErrStopped = errors.New("stopped by request")

// Policy is the interface that a round needs of a model. *policy.Engine implements it.
type Policy interface {
	Generate(context.Context, policy.GenerateParams) (policy.GenerateResult, error)
	Update(context.Context, policy.UpdateParams) (policy.UpdateResult, error)
	Logprobs(context.Context, policy.LogprobsParams) (policy.LogprobsResult, error)
}

// Host is the interface that a node needs of its supervising process.
type Host interface {
	// Lease blocks until the node may compute, and returns the function that ends the lease. It returns ErrStopped
	// if the node is asked to stop meanwhile.
	Lease(ctx context.Context, phase string) (release func(), err error)
	// State reports what the node is doing.
	State(state event.State, round int)
	// Members returns the nodes of the swarm, this one included, and a channel that is closed when they change.
	Members() (members []protocol.Member, changed <-chan struct{})
	// Stopping returns a channel that is closed when the node is asked to stop.
	Stopping() <-chan struct{}
}

// Node is one agent. Call its methods from one goroutine.
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
	OnGPU   bool         // the policy computes on a GPU; affects messages only
	Journal Journal      // nil: the node keeps no journal
	HeldOut *HeldOut     // questions never to train on; nil: only those that task.HeldOut recognizes by their metadata
	Warn    func(string) // sends a warning to the user; nil: the log only

	narrow map[string]*task.Set // parts of Tasks for nodes with tasks of their own, by task names

	Validation *HeldOut // questions that judge a bandit's splits; nil: no bandit
	Selection  *HeldOut // questions that choose the best weights; nil: no best weights are kept

	Mode Mode // how the node departs from Algorithm 1

	outage   outage         // of a remote node
	rollouts recentRollouts // of the peers
	splits   *splits

	disagrees bool // sampler and trainer disagreed in the newest round that measured it
}

// Mode is how a node departs from Algorithm 1. The zero value is a training node on the coordinator's host with
// nothing to recover.
type Mode struct {
	GenerateOnly bool // the node shares its rollouts and does not train
	Remote       bool // the node is on another host than the coordinator: it trains alone while it cannot reach the swarm

	Recovered *RecoveredRound // completions of the round in which a previous process died; nil: none
	// Verdicts returns the alarm's decisions about the learning rate, and a channel that is closed when they change;
	// nil: the rate stays as configured
	Verdicts func() (protocol.Verdicts, <-chan struct{})
	Decided  func(round int) sapo.Split // a round's adaptive I and J that are already decided; nil: the node decides
}
