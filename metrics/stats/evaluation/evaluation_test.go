package evaluation

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func question(task string, correct int, sum float64) event.EvalQuestion {
	return event.EvalQuestion{Task: task, Correct: correct, RewardSum: sum}
}

func TestEvaluations(t *testing.T) {
	evals := []store.NodeEval{
		{Node: "node_1", Eval: event.Eval{Round: 10, Set: "s", Generations: 4, FormatRate: math.NaN(), MeanLength: math.NaN(),
			Questions: []event.EvalQuestion{question("b", 0, 0), question("a", 2, 2.4)}}},
		{Node: "node_0", Eval: event.Eval{Round: 10, Set: "s", Generations: 4, FormatRate: 0.5, MeanLength: math.NaN(),
			Questions: []event.EvalQuestion{question("b", 4, 4), question("a", 0, math.NaN())}}},
		{Node: "node_0", Eval: event.Eval{Round: 0, Set: "s", Generations: 4, Questions: []event.EvalQuestion{question("b", 0, 0)}}},
		{Node: "node_0", Eval: event.Eval{Round: 5, Set: "s"}},
	}
	x := New(store.Run{Run: "r", Experiment: "e", NumTrainSamples: 4}, evals)
	require.Equal(t, []string{"r", "e", "4/0"}, []string{x.Run, x.Experiment, x.Config})
	require.Len(t, x.Rows, 2, "nothing was asked at round 5")
	require.Equal(t, 0, x.Rows[0].Round)
	row := x.Rows[1]
	require.Equal(t, []any{10, "s", 2, 2, 4}, []any{row.Round, row.Set, row.Nodes, row.Questions, row.Generations})
	require.InDeltaSlice(t, []float64{6.4 / 16, 2.4 / 8, 0.5, 0.5}, []float64{row.Reward, row.RewardLow, row.RewardHigh, *row.FormatRate}, 1e-12)
	require.Nil(t, row.MeanLength)
	require.Equal(t, []int{1, 2, 4}, []int{row.Pass[0].K, row.Pass[1].K, row.Pass[2].K})
	require.InDelta(t, (0+0.5+1+0)/4, row.Pass[0].Value, 1e-12)
	require.InDelta(t, (0+1-1.0/6+1+0)/4, row.Pass[1].Value, 1e-12)
	require.Equal(t, []string{"a", "b"}, []string{x.Tasks[0].Task, x.Tasks[1].Task})
	require.Equal(t, 1, x.Tasks[0].Questions, "of a node")
	require.InDelta(t, 2.4/8, x.Tasks[0].Reward, 1e-12)

	chosen := New(store.Run{}, evals, 3, 8)
	require.Equal(t, 3, chosen.Rows[1].Pass[0].K)
	require.Len(t, chosen.Rows[1].Pass, 1, "of 8 completions nothing is known")
	teacher := store.NodeEval{Node: "node_2", GenerateOnly: true, Eval: event.Eval{Round: 0, Set: "s", Generations: 4, Questions: evals[1].Questions}}
	require.Equal(t, x, New(store.Run{Run: "r", Experiment: "e", NumTrainSamples: 4}, append(evals, teacher)), "it does not train")
	require.Len(t, New(store.Run{}, []store.NodeEval{teacher}).Rows, 1, "no node trains")
	text, err := json.Marshal(New(store.Run{}, nil))
	require.NoError(t, err)
	require.Contains(t, string(text), `"rows":[],"tasks":[]`)
}
