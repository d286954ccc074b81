package stats

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestPassAtKIsTheFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		c, k := rapid.IntRange(0, n).Draw(t, "c"), rapid.IntRange(1, n).Draw(t, "k")
		var none, all big.Int
		none.Binomial(int64(n-c), int64(k))
		all.Binomial(int64(n), int64(k))
		ratio, _ := new(big.Rat).SetFrac(&none, &all).Float64()
		if n-c < k {
			ratio = 0
		}
		got := PassAtK(n, c, k)
		require.InDelta(t, 1-ratio, got, 1e-12)
		if k > 1 {
			require.GreaterOrEqual(t, got, PassAtK(n, c, k-1)-1e-15, "another completion never hurts")
		}
		if c > 0 {
			require.GreaterOrEqual(t, got, PassAtK(n, c-1, k)-1e-15)
		}
	})
	require.InDelta(t, 0.25, PassAtK(4, 1, 1), 1e-15)
	require.InDelta(t, 0.5, PassAtK(4, 1, 2), 1e-15)
	require.InDelta(t, 1, PassAtK(4, 9, 1), 0, "more right than there are")
	require.InDelta(t, 0, PassAtK(4, -1, 4), 0)
	require.True(t, math.IsNaN(PassAtK(4, 1, 5)))
	require.True(t, math.IsNaN(PassAtK(4, 1, 0)))
}

func question(task string, correct int, sum float64) event.EvalQuestion {
	return event.EvalQuestion{Task: task, Correct: correct, RewardSum: sum}
}

func TestEvaluations(t *testing.T) {
	evals := []store.NodeEval{
		{Node: "node_1", Eval: event.Eval{Round: 10, Set: "s", Generations: 4, FormatRate: nan, MeanLength: nan,
			Questions: []event.EvalQuestion{question("b", 0, 0), question("a", 2, 2.4)}}},
		{Node: "node_0", Eval: event.Eval{Round: 10, Set: "s", Generations: 4, FormatRate: 0.5, MeanLength: nan,
			Questions: []event.EvalQuestion{question("b", 4, 4), question("a", 0, nan)}}},
		{Node: "node_0", Eval: event.Eval{Round: 0, Set: "s", Generations: 4, Questions: []event.EvalQuestion{question("b", 0, 0)}}},
		{Node: "node_0", Eval: event.Eval{Round: 5, Set: "s"}},
	}
	x := NewEvaluations(store.Run{Run: "r", Experiment: "e", NumTrainSamples: 4}, evals)
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

	reward, ok := evalMean(store.EvalTotal{Set: "s", Generations: 4, Questions: 4, RewardSum: 6.4})
	require.True(t, ok)
	require.InDelta(t, row.Reward, reward, 0, "compare's figure is the evaluation's")

	chosen := NewEvaluations(store.Run{}, evals, 3, 8)
	require.Equal(t, 3, chosen.Rows[1].Pass[0].K)
	require.Len(t, chosen.Rows[1].Pass, 1, "of 8 completions nothing is known")
	teacher := store.NodeEval{Node: "node_2", GenerateOnly: true, Eval: event.Eval{Round: 0, Set: "s", Generations: 4, Questions: evals[1].Questions}}
	require.Equal(t, x, NewEvaluations(store.Run{Run: "r", Experiment: "e", NumTrainSamples: 4}, append(evals, teacher)), "it does not train")
	require.Len(t, NewEvaluations(store.Run{}, []store.NodeEval{teacher}).Rows, 1, "no node trains")
	text, err := json.Marshal(NewEvaluations(store.Run{}, nil))
	require.NoError(t, err)
	require.Contains(t, string(text), `"rows":[],"tasks":[]`)
}

func TestTaskTable(t *testing.T) {
	totals := []store.TaskTotal{
		{Task: "b", Round: 0, Completions: 8, RewardSum: 2}, {Task: "b", Round: 10, Completions: 8, RewardSum: 6},
		{Task: "a", Round: 10, Completions: 4, RewardSum: 1},
	}
	x := NewTaskTable("r", totals)
	require.Equal(t, []int{0, 10}, x.Round)
	require.Equal(t, []string{"a", "b"}, []string{x.Tasks[0].Task, x.Tasks[1].Task})
	require.InDelta(t, 0.5, x.Tasks[1].Reward, 0)
	requireValues(t, Values{nan, 0.25}, x.Tasks[0].Steps)
	requireValues(t, Values{0.25, 0.75}, x.Tasks[1].Steps)
	require.Equal(t, []int{20, 1, 34, 1}, []int{TaskSteps(2000, 100), TaskSteps(5, 100), TaskSteps(100, 3), TaskSteps(0, 0)})
}
