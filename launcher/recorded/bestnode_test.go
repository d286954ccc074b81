package recorded

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestBestNode(t *testing.T) {
	among := []string{"node_0", "node_2", "node_10"}
	eval := func(node string, round int, sum float64) store.NodeEval {
		return store.NodeEval{Node: node, Eval: event.Eval{Round: round, Generations: 2, Questions: []event.EvalQuestion{{RewardSum: sum}}}}
	}
	reward := func(node string, round int, value float64) store.RoundReward {
		return store.RoundReward{Node: node, Round: round, Reward: value}
	}
	recent := []store.RoundReward{
		reward("node_0", 7, 0.2), reward("node_0", 8, 0.4), reward("node_2", 7, 0.5), reward("node_2", 8, math.NaN()), reward("node_10", 8, 0.3),
		reward("anna.node_0", 8, 1),
	}
	untrained := eval("node_10", 0, 2)
	for name, test := range map[string]struct {
		evals  []store.NodeEval
		recent []store.RoundReward
		want   evaluation.Choice
	}{
		"nothing is known":          {nil, nil, evaluation.Choice{Node: "node_0", By: evaluation.ByOrder}},
		"recent rewards":            {[]store.NodeEval{untrained}, recent, evaluation.Choice{Node: "node_0", By: evaluation.ByRecent, Reward: 0.3, Round: 8}},
		"held-out before recent":    {[]store.NodeEval{untrained, eval("node_10", 4, 0.5)}, recent, evaluation.Choice{Node: "node_10", By: evaluation.ByHeldOut, Reward: 0.25, Round: 4}},
		"the newest round counts":   {[]store.NodeEval{eval("node_0", 4, 2), eval("node_0", 8, 0.5), eval("node_2", 8, 1)}, nil, evaluation.Choice{Node: "node_2", By: evaluation.ByHeldOut, Reward: 0.5, Round: 8}},
		"another host's is no node": {[]store.NodeEval{eval("anna.node_0", 9, 2), eval("node_2", 8, 1)}, recent, evaluation.Choice{Node: "node_2", By: evaluation.ByHeldOut, Reward: 0.5, Round: 8}},
		"the first of equals":       {[]store.NodeEval{eval("node_10", 8, 1), eval("node_2", 8, 1)}, nil, evaluation.Choice{Node: "node_2", By: evaluation.ByHeldOut, Reward: 0.5, Round: 8}},
		"not finite is 0":           {[]store.NodeEval{eval("node_0", 8, math.NaN()), eval("node_2", 8, 0.1)}, nil, evaluation.Choice{Node: "node_2", By: evaluation.ByHeldOut, Reward: 0.05, Round: 8}},
		"an evaluation of nothing":  {[]store.NodeEval{{Node: "node_2", Eval: event.Eval{Round: 9}}}, nil, evaluation.Choice{Node: "node_0", By: evaluation.ByOrder}},
	} {
		t.Run(name, func(t *testing.T) {
			got := bestNode(among, test.evals, test.recent)
			require.InDelta(t, test.want.Reward, got.Reward, 1e-12)
			got.Reward = test.want.Reward
			require.Equal(t, test.want, got)
		})
	}
}
