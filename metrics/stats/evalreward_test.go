package stats

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// A comparison's figure is that of the evaluation's questions.
func TestRewardOfAnEvaluation(t *testing.T) {
	questions := []event.EvalQuestion{{Correct: 2, RewardSum: 2.4}, {Correct: 4, RewardSum: 4}, {RewardSum: nan}, {}}
	reward, ok := evalMean(store.EvalTotal{Set: "s", Generations: 4, Questions: 4, RewardSum: 6.4})
	require.True(t, ok)
	require.InDelta(t, 0.4, reward, 1e-12)
	require.InDelta(t, reward, EvalReward(questions, 4), 1e-12)
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
