package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
)

// Round runs one round of the paper's Algorithm 1. It returns the round's report, ErrStopped, or the error. On an
// error the weights are unchanged. Before it shares and before it updates, it logs to the journal what a repetition
// of the round needs to give the same result.
func (n *Node) Round(ctx context.Context, round int) (event.Round, error) {
	m := &measured{round: round, began: time.Now(), generateOnly: n.Mode.GenerateOnly}

	if err := n.keepPace(ctx, round, m); err != nil {
		return event.Round{}, err
	}
	if err := n.awaitVerdict(ctx, round, m); err != nil {
		return event.Round{}, err
	}
	split, err := n.split(ctx, round, m)
	if err != nil {
		return event.Round{}, err
	}
	questions, err := n.sampleBatch(round, split.Own)
	if err != nil {
		return event.Round{}, err
	}
	own, err := n.generate(ctx, round, questions, m)
	if err != nil {
		return event.Round{}, err
	}
	n.score(round, own, m)
	batch, err := n.logGenerated(round, own, m)
	if err != nil {
		return event.Round{}, err
	}
	if err := n.share(ctx, round, batch); err != nil {
		return event.Round{}, err
	}
	if n.Mode.GenerateOnly {
		return n.endUntrained(round, m)
	}
	shared, err := n.gather(ctx, round, split.External, m)
	if err != nil {
		return event.Round{}, err
	}
	external, err := n.sampleExternal(ctx, round, split.External, shared, m)
	if err != nil {
		return event.Round{}, err
	}
	training, err := n.trainingSet(own, external, m)
	if err != nil {
		return event.Round{}, err
	}
	if err := n.logTrained(round, training, external, m); err != nil {
		return event.Round{}, err
	}
	// Other policies sampled the external completions: a sampling difference there would mean nothing.
	if m.step, err = n.update(ctx, round, training.WithSampling(sampledWith(own...)), event.StateUpdating); err != nil {
		return event.Round{}, err
	}
	n.watchSampling(round, m.step.result)
	n.observeSplit(round, training, len(own), m.own.reward)
	return m.report(), nil
}

// group is one question with its completions, ready for training.
type group struct {
	item        task.Item
	prompt      []int    // token ids
	completions [][]int  // token ids, with the EOS token if there was one
	texts       []string // decoded completions
	terminated  []bool
	unsaid      []bool      // of an external group: no policy sampled these ids, so they do not contribute to the update
	logprobs    [][]float64 // of the sampling policy, nil if unknown
	rewards     []float64
	origin      journal.External // of an external group
	age         int              // of an external group: number of this node's rounds since it arrived
}

// redraws bounds the search for a question that fits the context.
const redraws = 64

// sampleBatch draws own fresh questions for a round from the node's seeded stream.
func (n *Node) sampleBatch(round, own int) ([]group, error) {
	groups := make([]group, own)
	for i := range groups {
		found := false
		for try := 0; try < redraws && !found; try++ {
			item, err := n.question(n.ID, round, i, try)
			if err != nil {
				return nil, fmt.Errorf("draw a question: %w", err)
			}
			groups[i] = group{item: item, prompt: n.prompt(item)}
			found = n.fits(groups[i].prompt) && !n.heldOut(item.Question)
		}
		if !found {
			return nil, fmt.Errorf("none of %d questions fits max_prompt_length %d", redraws, n.Config.MaxPromptLength)
		}
	}
	return groups, nil
}

// question returns the question of a node's seeded stream for slot i of a round, at a try. A question that does not
// fit is drawn again at the next try. The result does not depend on the round's split, because a peer that checks
// the question does not know the split.
func (n *Node) question(node string, round, i, try int) (task.Item, error) {
	return n.tasksOf(node).Draw(sapo.Seed(n.Config.Seed, node, round, sapo.PurposeQuestion, i+try*n.Config.MostOwn()))
}

// tasksOf returns what a node draws its questions from: all of Tasks, or the part that nodes.tasks gives it.
// Evaluations and scores use all of them.
func (n *Node) tasksOf(node string) *task.Set {
	names := n.Config.TasksOf(node)
	if names == nil {
		return n.Tasks
	}
	key := strings.Join(names, "+")
	if n.narrow == nil {
		n.narrow = map[string]*task.Set{}
	}
	if n.narrow[key] == nil {
		n.narrow[key] = n.Tasks.Only(names)
	}
	return n.narrow[key]
}

// heldOut reports whether a question belongs to the evaluation set or to a validation set.
func (n *Node) heldOut(question string) bool {
	return n.HeldOut.Holds(question) || n.Validation.Holds(question) || n.Selection.Holds(question)
}

// generate samples G completions of every question, all in one batch.
func (n *Node) generate(ctx context.Context, round int, groups []group, m *measured) ([]group, error) {
	params := policy.GenerateParams{
		NumGenerations: n.Config.NumGenerations,
		MaxNewTokens:   n.Config.MaxCompletionLength,
		Temperature:    n.Config.Temperature,
		TopK:           n.Config.TopK,
		TopP:           n.Config.TopP,
		EOSTokenID:     n.Tokens.EOS(),
		StopTokenIDs:   n.Tokens.Stops(),
		Seed:           n.generateSeed(round),
		MicroBatch:     n.Config.AtOnce(0).Generate,
	}
	for _, g := range groups {
		params.Prompts = append(params.Prompts, g.prompt)
	}
	result, err := n.sample(ctx, round, params, m)
	if err != nil {
		return nil, err
	}
	m.entropy = result.Entropy
	for i := range groups {
		lo, hi := i*params.NumGenerations, (i+1)*params.NumGenerations
		groups[i].completions = result.Completions[lo:hi]
		groups[i].terminated = result.Terminated[lo:hi]
		if result.Logprobs != nil { // nil after a recovery from a journal without log-probabilities
			groups[i].logprobs = result.Logprobs[lo:hi]
		}
		for _, ids := range groups[i].completions {
			groups[i].texts = append(groups[i].texts, n.Tokens.Decode(ids))
		}
	}
	return groups, nil
}

// generateSeed is the engine's seed for a round's sampling.
func (n *Node) generateSeed(round int) int64 {
	return sapo.EngineSeed(n.Config.Seed, n.ID, round, sapo.PurposeGenerate, 0)
}

// sample makes the engine sample a round's completions, unless a previous process of the node has logged them.
func (n *Node) sample(ctx context.Context, round int, params policy.GenerateParams, m *measured) (policy.GenerateResult, error) {
	if result, seconds, logged := n.recall(round, params); logged {
		m.seconds.generate = seconds
		return result, nil
	}
	release, waited, err := n.lease(ctx, phaseGenerate, round)
	m.seconds.lease += waited
	if err != nil {
		return policy.GenerateResult{}, err
	}
	n.Host.State(event.StateGenerating, round)
	began := time.Now()
	result, err := n.Policy.Generate(ctx, params)
	m.seconds.generate = time.Since(began).Seconds()
	release()
	if err != nil {
		return result, fmt.Errorf("generate: %w", err)
	}
	want := len(params.Prompts) * params.NumGenerations
	if len(result.Completions) != want || len(result.Terminated) != want || len(result.Logprobs) != want {
		return result, fmt.Errorf("generate: the engine returned %d completions instead of %d", len(result.Completions), want)
	}
	return result, nil
}

// score computes the rewards of the node's own completions with the tasks' verifiers. The node's reward of the
// round is the mean over its own I·G completions. The cumulative reward sums it over nodes and rounds.
func (n *Node) score(round int, own []group, m *measured) {
	n.Host.State(event.StateScoring, round)
	began := time.Now()
	var rewards []float64
	for i := range own {
		n.reward(&own[i])
		rewards = append(rewards, own[i].rewards...)
	}
	m.seconds.score = time.Since(began).Seconds()
	m.own = describeOwn(own)
	m.own.reward = sapo.Mean(rewards)
}

// reward computes the verifier's score of each completion in a group: 1 for a correct answer, otherwise 0 or the
// task's base score.
func (n *Node) reward(g *group) {
	g.rewards = make([]float64, len(g.texts))
	for i, text := range g.texts {
		g.rewards[i] = n.Tasks.Score(g.item, text)
	}
}

// batch returns the node's rollouts of a round as text, with answer keys and metadata.
func (n *Node) batch(round int, groups []group) exchange.Batch {
	batch := exchange.Batch{Version: exchange.Version, Node: n.ID, Round: round}
	for _, g := range groups {
		r := exchange.Rollout{Question: g.item.Question, Answer: g.item.Answer, Metadata: g.item.Metadata}
		if r.Metadata == nil {
			r.Metadata = json.RawMessage(`{}`) // questions from a file may have none
		}
		for i, ids := range g.completions {
			var logprobs []float64 // only if the swarm corrects with them
			if n.Config.Corrects() {
				logprobs = g.logprobs[i]
			}
			r.Completions = append(r.Completions, exchange.Sampled(n.Tokens, ids, g.terminated[i], logprobs))
		}
		batch.Rollouts = append(batch.Rollouts, r)
	}
	return batch
}

// share publishes the node's rollouts.
func (n *Node) share(ctx context.Context, round int, batch exchange.Batch) error {
	if n.outage.rests() {
		n.outage.keep(batch)
		n.outage.last = round
		return nil
	}
	n.Host.State(event.StateSharing, round)
	ctx, cancel := n.untilStop(ctx)
	defer cancel()
	n.outage.asked = time.Now()
	// A message bus that does not accept a batch within the time allowed for peers is gone.
	bounded, expire := context.WithTimeoutCause(ctx, n.patience(), errBusSilent)
	defer expire()
	err := n.Swarm.Publish(bounded, batch)
	if n.Mode.Remote {
		err = n.shared(ctx, bounded, batch, err)
	}
	if err != nil {
		return n.stopped(ctx, err)
	}
	return nil
}

// gather collects the peers' rollouts if the round wants any. It waits at the barrier for those of this round, or
// of the round external_lag before. In async mode it takes what arrived recently.
func (n *Node) gather(ctx context.Context, round, wanted int, m *measured) ([]*exchange.Received, error) {
	if wanted == 0 || round < n.Config.ExternalLag {
		return nil, nil // plain RL fine-tuning does not wait for peers
	}
	n.Host.State(event.StateBarrier, round)
	began := time.Now()
	defer func() { m.seconds.barrier += time.Since(began).Seconds() }()
	ctx, cancel := n.untilStop(ctx)
	defer cancel()
	collect := n.barrier
	if n.Config.Async() {
		collect = n.recent
	}
	received, err := collect(ctx, round, m)
	if err != nil {
		return nil, n.stopped(ctx, err)
	}
	return received, nil
}

// sampleExternal re-scores the peers' rollouts, drops groups with zero advantage, and draws wanted groups from the
// rest: uniformly, fairly over peers, by reward, or the best. With a filter, it draws replacements for the groups
// that the filter refuses.
func (n *Node) sampleExternal(ctx context.Context, round, wanted int, received []*exchange.Received, m *measured) ([]group, error) {
	began := time.Now()
	var pool []sapo.Group
	var groups []group
	peers := indexPeers(m.peers)
	for _, found := range n.judge(round, received) {
		p := peers[found.node]
		m.peers[p].Rejected += found.rejected
		if found.reason != "" {
			m.peers[p].Reason = found.reason
		}
		for _, g := range found.groups {
			if n.Config.ZeroAdvantageFilter && sapo.AllEqual(g.rewards) {
				m.peers[p].Filtered++
			}
			pool = append(pool, sapo.Group{Peer: p, Rollout: len(groups), Rewards: g.rewards})
			groups = append(groups, g)
		}
	}
	if n.Config.ZeroAdvantageFilter {
		pool = sapo.Filter(pool)
	}
	draw := sapo.DrawExternals
	switch {
	case n.Config.Fair():
		draw = sapo.DrawFair
	case n.Config.ExternalSampling == configs.SamplingReward:
		draw = sapo.DrawWeighted
	case n.Config.ExternalSampling == configs.SamplingTop:
		draw = sapo.DrawTop
	}
	var drawn []group
	for try := 0; len(drawn) < wanted && len(pool) > 0; try++ {
		found := draw(pool, wanted-len(drawn), sapo.Seed(n.Config.Seed, n.ID, round, sapo.PurposeExternals, try))
		refused, err := n.unlikely(ctx, round, groups, found, m)
		if err != nil {
			return nil, err
		}
		for i, g := range found {
			if refused[i] != "" {
				m.peers[g.Peer].Rejected++
				m.peers[g.Peer].Reason = refused[i]
				continue
			}
			drawn = append(drawn, groups[g.Rollout])
			m.peers[g.Peer].Used++
			m.staleness += float64(groups[g.Rollout].age)
		}
		if n.Config.ExternalFilter != configs.FilterLikelihood || try == refills || len(found) == 0 {
			break
		}
		pool = slices.DeleteFunc(pool, func(g sapo.Group) bool {
			return slices.ContainsFunc(found, func(f sapo.Group) bool { return f.Rollout == g.Rollout })
		})
	}
	m.staleness /= float64(max(1, len(drawn)))
	n.rollouts.draw(round, drawn)
	m.seconds.score += time.Since(began).Seconds()
	return drawn, nil
}

// delta bounds the importance ratio where the advantage is negative. 0 means no bound. Peers' log-probabilities
// need a bound: a forged log-probability could let one completion dominate the update. The value 4 is from
// INTELLECT-2 (arXiv:2505.07291). The bound must exceed the upper clip.
func (n *Node) delta() float64 {
	if n.Config.ExternalCorrection != configs.CorrectionImportance {
		return 0 // other corrections bound their weights themselves
	}
	return max(4, 2*(1+n.Config.EpsilonHigh))
}

// trainingSet builds the parameters of the round's update: the I own and up to J external groups, each with its
// advantages.
func (n *Node) trainingSet(own, external []group, m *measured) (policy.UpdateParams, error) {
	params := policy.UpdateParams{
		LearningRate:        n.learningRate(m.round),
		Temperature:         n.Config.Temperature,
		Epsilon:             n.Config.Epsilon,
		Delta:               n.delta(),
		EpsilonHigh:         n.Config.EpsilonHigh,
		Beta:                n.Config.Beta,
		NumIterations:       n.Config.NumIterations,
		LossType:            n.Config.LossType,
		MaxCompletionLength: n.Config.MaxCompletionLength,
		MaxGradNorm:         n.Config.MaxGradNorm,
	}
	switch n.Config.ExternalCorrection {
	case configs.CorrectionTapered:
		params.Correction = policy.CorrectionTapered
	case configs.CorrectionFTIS:
		params.Correction, params.Divergence = policy.CorrectionFTIS, n.Config.ExternalDivergence
	}
	var rewards []float64
	for k, g := range append(own[:len(own):len(own)], external...) {
		advantages, err := sapo.Advantages(g.rewards, n.Config.ScaleRewards)
		if err != nil {
			return params, err
		}
		if k >= len(own) && n.Config.ExternalAdvantage == configs.AdvantagePositive {
			advantages = sapo.Positive(advantages)
		}
		for i, completion := range g.completions {
			s := policy.Sequence{Prompt: len(params.Prompts), Completion: completion, Advantage: advantages[i]}
			if g.unsaid != nil && g.unsaid[i] {
				s.Advantage = 0
			}
			if k < len(own) && n.Config.NumIterations > 1 || k >= len(own) && n.Config.Corrects() {
				s.OldLogprobs = g.logprobs[i]
				s.External = k >= len(own) && s.OldLogprobs != nil
			}
			params.Sequences = append(params.Sequences, s)
		}
		params.Prompts = append(params.Prompts, g.prompt)
		rewards = append(rewards, g.rewards...)
	}
	m.trainedOwn, m.trainedExternal, m.trainingReward = len(own), len(external), sapo.Mean(rewards)
	params.MicroBatch = n.Config.AtOnce(len(params.Sequences)).Update
	return params, nil
}

// update takes the policy-gradient step (GRPO) on a round's training set.
func (n *Node) update(ctx context.Context, round int, params policy.UpdateParams, state event.State) (step, error) {
	release, waited, err := n.lease(ctx, phaseUpdate, round)
	if err != nil {
		return step{}, err
	}
	n.Host.State(state, round)
	began := time.Now()
	result, err := n.Policy.Update(ctx, params)
	taken := step{result: result, seconds: time.Since(began).Seconds(), waited: waited}
	release()
	var refused *policy.Error
	if errors.As(err, &refused) && refused.Kind == policy.KindNotFinite {
		// The weights are unchanged: the round counts as one without a step.
		n.Logger.Warn("no step", "round", round, "reason", refused.Message)
		return step{seconds: taken.seconds, waited: waited, notFinite: true}, nil
	}
	if err != nil {
		return step{}, fmt.Errorf("update: %w", err)
	}
	return taken, nil
}
