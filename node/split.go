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

// sampledTokenCost is what sampling a token costs, in tokens trained on. See docs/ALGORITHM.md for where the figure is
// from. What a split costs is counted and not timed: the same seed must give the same run.
const sampledTokenCost = 3

// splits is what a node remembers to decide a round's I and J. It is part of the node's state as its weights are: it is
// logged with what the node generates and saved with its checkpoints, so that a node that dies goes on as if it had
// not.
type splits struct {
	Round  int               `json:"round"` // that Split is for; it is decided once
	Split  sapo.Split        `json:"split"`
	EMA    *sapo.SplitEMA    `json:"ema,omitempty"`
	Bandit *sapo.SplitBandit `json:"bandit,omitempty"`
	Block  *block            `json:"block,omitempty"` // of the bandit
}

// block is the rounds for which a bandit keeps a split.
type block struct {
	Since int     `json:"since"` // its first round
	Set   string  `json:"set"`   // name of the validation set
	Value float64 `json:"value"` // mean validation reward of the weights that it began with
	Cost  float64 `json:"cost"`  // so far, in tokens trained on
}

// split returns a round's I and J: the configured ones, or what the split's rule decides. A node that learns from
// nobody has nothing to decide.
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

// decide is the rule's split of a round. Asked again, after a stop in the middle of the round, it says the same.
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

// judgeSplit ends the block that is over and begins the next: the weights are measured on the validation set, the split
// that was tried is credited with what it gained for what it cost, this measurement included, and another is chosen. An
// error changes nothing.
func (n *Node) judgeSplit(ctx context.Context, round int, s *splits) error {
	if s.Block != nil && round < s.Block.Since+n.Config.SplitEvery {
		return nil
	}
	value, cost, err := n.validate(ctx, round)
	if err != nil {
		return err
	}
	if b := s.Block; b != nil {
		gain := math.NaN() // no credit where two sets would be compared
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

// validate measures the weights: the mean reward of the completions of the validation set, and what sampling these
// cost.
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

// observeSplit gives the split's rule what came of a round: its reward, and what it cost. The first own prompts of the
// training set are the node's.
func (n *Node) observeSplit(round int, training policy.UpdateParams, own int, reward float64) {
	if s := n.splits; s == nil || s.Round != round {
		return
	} else if s.EMA != nil {
		s.EMA.Observe(reward, n.Config.SplitAlpha, n.Config.SplitEMA, n.Config.Budget())
	} else {
		s.Block.Cost += roundCost(training, own)
	}
}

// roundCost is what a round costs in tokens trained on: those that the update works on, a prompt once for all of its
// completions, as often as it does, and those that were sampled, of the node's own questions, which come first.
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

// ahead tells whether nothing has held the node back in the round before, for it took nothing of others.
func (n *Node) ahead(round int) bool {
	return n.splits != nil && n.splits.Round == round-1 && n.splits.Split.External == 0 && !n.Config.Async()
}

// splitState is what a checkpoint or the journal keeps of how splits are decided; nil: nothing.
func (n *Node) splitState() (json.RawMessage, error) {
	if n.splits == nil {
		return nil, nil
	}
	return json.Marshal(n.splits)
}

// recallSplits takes up what splitState has kept; nothing is no change.
func (n *Node) recallSplits(state json.RawMessage) error {
	if len(state) == 0 {
		return nil
	}
	s := &splits{}
	if err := json.Unmarshal(state, s); err != nil {
		return fmt.Errorf("the state of how I and J are decided: %w", err)
	}
	if (s.EMA != nil) != (n.Config.Split == configs.SplitRewardEMA) || (s.Bandit != nil) != (n.Config.Split == configs.SplitBandit) ||
		s.Bandit != nil && (s.Block == nil || s.Bandit.Arm < 0 || s.Bandit.Arm >= len(s.Bandit.Arms)) {
		return fmt.Errorf("the state of how I and J are decided is not of split %s", n.Config.Split)
	}
	n.splits = s
	return nil
}
