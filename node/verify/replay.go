package verify

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/sapo"
)

// replay is the environment of a node during the check. As policy it returns the journaled completions, as exchange the
// peers' batches, and as host it grants every lease. It compares everything that the node passes to it with the
// journal.
type replay struct {
	check  *check
	logged journal.Round
	never  chan struct{} // always nil: no stop is requested, and the members never change

	// partial tells that some of the peers' batches of the round are not on this host. The check repeats the node's own
	// part of the training set and takes the rest from the journal.
	partial bool
}

var (
	_ node.Policy       = (*replay)(nil)
	_ node.Host         = (*replay)(nil)
	_ exchange.Exchange = (*replay)(nil)
)

// take sets the next round.
func (r *replay) take(logged journal.Round) { r.logged, r.partial = logged, false }

// split returns the round's I and J from the journal. Their decision, which also rests on measurements of the weights,
// is not repeated. checkSplit verifies that they are possible.
func (r *replay) split(int) sapo.Split {
	report := r.logged.Trained.Report
	return sapo.Split{Own: report.SplitOwn, External: report.SplitExternal}
}

// verdicts returns the recorded decisions of the alarm, for all rounds.
func (r *replay) verdicts() (protocol.Verdicts, <-chan struct{}) {
	return protocol.Verdicts{Judged: math.MaxInt, Lowered: r.check.options.Lowered}, r.never
}

// checkSplit returns an error if no round of the run can have the journaled I and J.
func (r *replay) checkSplit() error {
	c, report := r.check.options.Config, r.logged.Trained.Report
	if !c.Adaptive() || report.GenerateOnly {
		return nil
	}
	if report.SplitOwn < 1 || report.SplitExternal < 0 || report.SplitOwn > c.Budget() || report.SplitOwn+report.SplitExternal != c.Budget() {
		return r.differs("split", fmt.Sprintf("I and J that sum to %d, I from 1", c.Budget()),
			fmt.Sprintf("%d and %d", report.SplitOwn, report.SplitExternal))
	}
	return nil
}

func (r *replay) differs(what string, expected, found any) error {
	return r.check.differs(r.logged.Round, what, Journal, fmt.Sprint(expected), fmt.Sprint(found))
}

// Generate returns the journaled completions after checking that they match the request.
func (r *replay) Generate(ctx context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
	g := r.logged.Generated
	asked := len(p.Prompts) * p.NumGenerations
	switch {
	case g.Seed != p.Seed:
		return policy.GenerateResult{}, r.differs("sampling seed", p.Seed, g.Seed)
	case len(g.Completions) != asked || len(g.Terminated) != asked:
		return policy.GenerateResult{}, r.differs("completions", asked, fmt.Sprintf("%d, %d terminated flags", len(g.Completions), len(g.Terminated)))
	}
	result := policy.GenerateResult{Completions: g.Completions, Terminated: g.Terminated, Logprobs: g.Known(), Entropy: g.Entropy}
	if result.Logprobs == nil {
		result.Logprobs = make([][]float64, asked) // not needed, so not journaled
	}
	if len(result.Logprobs) != asked {
		return policy.GenerateResult{}, r.differs("log-probabilities", asked, len(result.Logprobs))
	}
	if !r.check.options.Generate {
		return result, nil
	}
	if continues(g, p.StopTokenIDs) {
		p.StopTokenIDs = nil
	}
	again, err := r.check.engine.Generate(ctx, p)
	if err != nil {
		return policy.GenerateResult{}, err
	}
	err = r.sameCompletions(again)
	if err != nil && !r.check.options.Exact {
		r.check.others++
		err = nil
	}
	return result, err
}

// continues reports whether a journaled completion goes on after a stop token. Then an older version of the program
// sampled the round, which ended completions only at EOS.
func continues(g *journal.Generated, stops []int) bool {
	for i, ids := range g.Completions {
		at := slices.IndexFunc(ids, func(id int) bool { return slices.Contains(stops, id) })
		if at >= 0 && (at < len(ids)-1 || !g.Terminated[i]) {
			return true
		}
	}
	return false
}

// sameCompletions compares the newly generated completions with the journal.
func (r *replay) sameCompletions(again policy.GenerateResult) error {
	for i, found := range r.logged.Generated.Completions {
		if i >= len(again.Completions) {
			return r.differs("completions", len(again.Completions), len(r.logged.Generated.Completions))
		}
		expected := again.Completions[i]
		if at := firstUnequal(expected, found); at >= 0 {
			return r.differs(fmt.Sprintf("token %d of completion %d", at, i), element(expected, at), element(found, at))
		}
		if again.Terminated[i] != r.logged.Generated.Terminated[i] {
			return r.differs(fmt.Sprintf("terminated flag of completion %d", i), again.Terminated[i], r.logged.Generated.Terminated[i])
		}
	}
	if again.Entropy != r.logged.Generated.Entropy {
		return r.differs("entropy", again.Entropy, r.logged.Generated.Entropy)
	}
	return nil
}

// Logprobs calls the engine, which has the node's weights of that time.
func (r *replay) Logprobs(ctx context.Context, p policy.LogprobsParams) (policy.LogprobsResult, error) {
	return r.check.engine.Logprobs(ctx, p)
}

// Update compares the training set with the journaled one, then makes the update.
func (r *replay) Update(ctx context.Context, p policy.UpdateParams) (policy.UpdateResult, error) {
	logged := r.logged.Update()
	if r.partial {
		own := r.logged.Trained.Report.TrainedOwn
		p, logged = ownPart(p, own), ownPart(logged, own)
	}
	if what, expected, found := unequalUpdates(p, logged); what != "" {
		return policy.UpdateResult{}, r.differs(what, expected, found)
	}
	return r.check.engine.Update(ctx, r.logged.Update())
}

// ownPart returns an update without the peers' rollouts, which follow the node's own questions. It clears MicroBatch,
// which depends on all sequences.
func ownPart(p policy.UpdateParams, questions int) policy.UpdateParams {
	p.Prompts, p.MicroBatch = p.Prompts[:min(questions, len(p.Prompts))], 0
	end := slices.IndexFunc(p.Sequences, func(s policy.Sequence) bool { return s.Prompt >= questions })
	if end >= 0 {
		p.Sequences = p.Sequences[:end]
	}
	return p
}

// Publish compares the batch with the one that the node shared.
func (r *replay) Publish(_ context.Context, batch exchange.Batch) error {
	shared, err := exchange.Decode(r.logged.Generated.Batch, r.check.report.Node, r.logged.Round)
	if err != nil {
		return &damage{fmt.Errorf("journal: what was shared in round %d: %w", r.logged.Round, err)}
	}
	if what, expected, found := unequalBatches(batch, shared); what != "" {
		return r.differs(what, expected, found)
	}
	return nil
}

// Gather returns the batches that the node received from its peers, read from the peers' journals. The entry of a late
// peer is nil.
func (r *replay) Gather(_ context.Context, round int, peers []string, _ exchange.Barrier) ([]*exchange.Received, error) {
	received := make([]*exchange.Received, len(peers))
	for i, p := range r.logged.Trained.Report.Peers {
		if i >= len(peers) || p.Node != peers[i] {
			return nil, r.differs("peers", peers, names(r.logged.Trained.Report.Peers))
		}
		if p.Late {
			continue
		}
		if slices.Contains(r.check.options.Foreign, p.Node) {
			r.partial = true
			continue
		}
		if !slices.Contains(r.check.options.Nodes, p.Node) {
			return nil, r.differs("peer", "a node of the run", fmt.Sprintf("%q", p.Node))
		}
		if p.Available == 0 && p.Rejected > 0 { // the whole batch was rejected
			received[i] = &exchange.Received{Batch: exchange.Batch{Node: p.Node, Round: round}, Rejected: cmp.Or(p.Reason, "as recorded")}
			continue
		}
		logged, err := journal.Find(filepath.Join(r.check.options.Dir, p.Node), round)
		if err == nil && logged.Generated == nil {
			err = journal.ErrNotFound
		}
		if err != nil {
			return nil, &damage{fmt.Errorf("what %s shared in round %d: %w", p.Node, round, err)}
		}
		received[i] = exchange.Receive(logged.Generated.Batch, p.Node, round)
		if received[i].Rejected != "" {
			return nil, &damage{fmt.Errorf("what %s shared in round %d: %s", p.Node, round, received[i].Rejected)}
		}
	}
	return received, nil
}

// Recent returns nothing, because no record tells which batches had arrived. The round is checked in part.
func (r *replay) Recent(context.Context, exchange.Window) ([]*exchange.Received, error) {
	r.partial = true
	return nil, nil
}

// Close implements Exchange.
func (r *replay) Close() error { return nil }

// Lease implements Host.
func (r *replay) Lease(ctx context.Context, _ string) (func(), error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return func() {}, nil
}

// State implements Host.
func (r *replay) State(event.State, int) {}

// Members implements Host. It returns the members that the node knew in that round.
func (r *replay) Members() ([]protocol.Member, <-chan struct{}) {
	return protocol.Members(names(r.logged.Trained.Report.Peers)...), r.never
}

// Stopping implements Host.
func (r *replay) Stopping() <-chan struct{} { return r.never }

func names(peers []event.Peer) []string {
	list := make([]string, len(peers))
	for i, p := range peers {
		list[i] = p.Node
	}
	return list
}
