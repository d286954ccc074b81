package node

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/sapo"
)

// sampledTokenCost is the cost of sampling a token, in tokens trained on. docs/ALGORITHM.md has the source of the
// figure. The cost of a split is counted, not timed, because the same seed must give the same run.
const sampledTokenCost = 3

// splits is the state from which a node decides a round's I and J. It is part of the node's state like the weights:
// the journal logs it with the node's rollouts and checkpoints include it, so that a restart does not change the
// run.
type splits struct {
	Round  int               `json:"round"` // round of Split
	Split  sapo.Split        `json:"split"`
	EMA    *sapo.SplitEMA    `json:"ema,omitempty"`
	Bandit *sapo.SplitBandit `json:"bandit,omitempty"`
	Block  *block            `json:"block,omitempty"` // current block of the bandit
}

// block is the series of rounds for which a bandit keeps a split.
type block struct {
	Since int     `json:"since"` // first round
	Set   string  `json:"set"`   // name of the validation set
	Value float64 `json:"value"` // mean validation reward at the start of the block
	Cost  float64 `json:"cost"`  // cost so far, in tokens trained on
}

// split returns a round's I and J: the configured ones, or those that the split rule decides. A generate-only node
// uses the configured ones.
func (n *Node) split(ctx context.Context, round int, m *measured) (sapo.Split, error) {
	configured := sapo.Split{Own: n.Config.NumTrainSamples, External: n.Config.NumTransplantTrees}
	if !n.Config.Adaptive() || n.Mode.GenerateOnly {
		return configured, nil
	}
	decide := n.decide
	if n.Mode.Decided != nil {
		decide = func(_ context.Context, round int, _ sapo.Split) (sapo.Split, error) {
			return n.Mode.Decided(round), nil
		}
	}
	split, err := decide(ctx, round, configured)
	m.split = split
	return split, err
}

// decide returns the split that the rule decides for a round. A second call for the same round, after a stop,
// returns the same split.
func (n *Node) decide(ctx context.Context, round int, first sapo.Split) (sapo.Split, error) {
	s, budget := n.splits, n.Config.Budget()
	if s != nil && s.Round == round {
		return s.Split, nil
	}
	if s == nil {
		s = n.firstSplits(first)
	}
	var next sapo.Split
	if s.EMA != nil {
		next = s.EMA.Next(budget)
	} else {
		if err := n.judgeSplit(ctx, round, s); err != nil {
			return next, err
		}
		next = s.Bandit.Next(budget)
	}
	s.Round, s.Split = round, next
	n.splits = s
	return next, nil
}

func (n *Node) firstSplits(first sapo.Split) *splits {
	if n.Config.Split == configs.SplitRewardEMA {
		return &splits{EMA: &sapo.SplitEMA{External: float64(first.External)}}
	}
	bandit := sapo.NewSplitBandit(first, n.splitSeed(0))
	return &splits{Bandit: &bandit}
}

// judgeSplit ends a finished block and begins the next. It measures the weights on the validation set, credits the
// split of the block with its gain and cost (this measurement included), and chooses the next split. On an error it
// changes nothing.
func (n *Node) judgeSplit(ctx context.Context, round int, s *splits) error {
	if s.Block != nil && round < s.Block.Since+n.Config.SplitEvery {
		return nil
	}
	value, cost, err := n.validate(ctx, round)
	if err != nil {
		return err
	}
	if b := s.Block; b != nil {
		gain := math.NaN() // no credit if the validation set has changed
		if b.Set == n.Validation.Set {
			gain = value - b.Value
		}
		s.Bandit.Credit(gain, b.Cost+cost)
		s.Bandit.Choose(n.splitSeed(round))
	}
	s.Block = &block{Since: round, Set: n.Validation.Set, Value: value}
	n.Logger.Info("split judged", "round", round, "validation_reward", value, "num_transplant_trees", s.Bandit.Next(n.Config.Budget()).External)
	return nil
}

func (n *Node) splitSeed(round int) uint64 {
	return sapo.Seed(n.Config.Seed, n.ID, round, sapo.PurposeSplit, 0)
}

// validate measures the weights on the validation set: the mean reward of the completions, and the cost of sampling
// them.
func (n *Node) validate(ctx context.Context, rounds int) (value, cost float64, err error) {
	eval, err := n.answer(ctx, n.Validation, rounds)
	if err != nil {
		return 0, 0, err
	}
	var rewards float64
	for _, q := range eval.Questions {
		rewards += q.RewardSum
	}
	completions := float64(len(eval.Questions) * eval.Generations)
	return rewards / completions, sampledTokenCost * math.Round(eval.MeanLength*completions), nil
}

// observeSplit passes a round's reward and cost to the split rule. The first own prompts of the training set are
// the node's own.
func (n *Node) observeSplit(round int, training policy.UpdateParams, own int, reward float64) {
	if s := n.splits; s == nil || s.Round != round {
		return
	} else if s.EMA != nil {
		s.EMA.Observe(reward, n.Config.SplitAlpha, n.Config.SplitEMA, n.Config.Budget())
	} else {
		s.Block.Cost += roundCost(training, own)
	}
}

// roundCost is a round's cost in tokens trained on. It counts the tokens that the update computes, once per
// iteration, with each prompt once for all its completions. It adds the sampled tokens of the node's own prompts,
// which are the first own ones.
func roundCost(p policy.UpdateParams, own int) float64 {
	var sampled, trained int
	prompts := map[int]bool{}
	for _, s := range p.Sequences {
		if s.Prompt < own {
			sampled += len(s.Completion)
		}
		if s.Advantage != 0 || p.Beta != 0 {
			trained += len(s.Completion)
			prompts[s.Prompt] = true
		}
	}
	for prompt := range prompts {
		trained += len(p.Prompts[prompt])
	}
	return float64(trained*max(1, p.NumIterations)) + sampledTokenCost*float64(sampled)
}

// ahead reports whether no barrier held the node back in the previous round, because it wanted no external
// rollouts.
func (n *Node) ahead(round int) bool {
	return n.splits != nil && n.splits.Round == round-1 && n.splits.Split.External == 0 && !n.Config.Async()
}

// splitState is the split state for a checkpoint or the journal; nil if there is none.
func (n *Node) splitState() (json.RawMessage, error) {
	if n.splits == nil {
		return nil, nil
	}
	return json.Marshal(n.splits)
}

// recallSplits restores the result of splitState. An empty state changes nothing.
func (n *Node) recallSplits(state json.RawMessage) error {
	if len(state) == 0 {
		return nil
	}
	s := &splits{}
	if err := json.Unmarshal(state, s); err != nil {
		return fmt.Errorf("the state of the split: %w", err)
	}
	if (s.EMA != nil) != (n.Config.Split == configs.SplitRewardEMA) || (s.Bandit != nil) != (n.Config.Split == configs.SplitBandit) ||
		s.Bandit != nil && (s.Block == nil || s.Bandit.Arm < 0 || s.Bandit.Arm >= len(s.Bandit.Arms)) {
		return fmt.Errorf("the state of the split does not match split %s", n.Config.Split)
	}
	n.splits = s
	return nil
}
