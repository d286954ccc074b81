package stats

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// measuredRuns returns five seeds of three experiments. "new" is worse than "base" by reward, but better by pass@1.
// "bare" was never evaluated.
func measuredRuns() Runs {
	runs := Runs{Evals: map[string]store.EvalTotal{}}
	for name, v := range map[string]struct {
		reward  float64
		correct int
	}{"base": {0.5, 20}, "new": {0.3, 60}, "bare": {0.9, 0}} {
		for seed := range 5 {
			key := fmt.Sprintf("%s-%d", name, seed)
			runs.Totals = append(runs.Totals, store.Totals{
				Run:        store.Run{Run: key, Experiment: name, Seed: int64(seed), State: store.RunDone, NumTrainSamples: 4, Rounds: 10},
				NodeRounds: 10, RoundsDone: 10, CumulativeReward: 10*v.reward + 0.01*float64(seed),
			})
			if v.correct > 0 {
				runs.Evals[key] = store.EvalTotal{Run: key, Set: "s", Round: 10, Nodes: 1, Questions: 100, Generations: 1, Correct: v.correct + seed}
			}
		}
	}
	return runs
}

func TestHeldOutPassDecidesWhereBothHaveItElseTheReward(t *testing.T) {
	c, err := Compare(measuredRuns(), CompareOptions{Baseline: "base"})
	require.NoError(t, err)
	rows := map[string]Row{}
	for _, r := range c.Rows {
		rows[r.Name] = r
	}
	require.Equal(t, []string{MeasurePass, BasisPass}, []string{c.Measure, c.Basis})
	require.Equal(t, []string{MeasurePass, OutcomeBetter}, []string{rows["new"].Measure, rows["new"].Outcome})
	require.Equal(t, []string{MeasureReward, OutcomeBetter}, []string{rows["bare"].Measure, rows["bare"].Outcome})
	require.InDelta(t, 0.62, *rows["new"].Value, 1e-9)
	require.InDelta(t, 0.902, *rows["bare"].Value, 1e-9)
	require.Contains(t, c.Caveats, OtherMeasure{[][2]string{{"bare", "base"}}})

	one := measuredRuns()
	delete(one.Evals, "new-2")
	c, err = Compare(one, CompareOptions{Baseline: "base"})
	require.NoError(t, err)
	for _, p := range c.Pairs {
		require.Equal(t, MeasureReward, p.Measure, "a seed without an evaluation must not be left out")
	}
	require.Equal(t, []string{MeasureReward, BasisCumulative}, []string{c.Measure, c.Basis})

	c, err = Compare(measuredRuns(), CompareOptions{Baseline: "base", Measure: MeasureReward})
	require.NoError(t, err)
	for _, p := range c.Pairs {
		require.Equal(t, map[string]string{"new": OutcomeWorse, "bare": OutcomeBetter}[p.A], p.Outcome)
	}
}

func TestRunsBeforeTheirFirstRoundAreNotComparedByAnEvaluation(t *testing.T) {
	runs := measuredRuns()
	for key, e := range runs.Evals {
		e.Round = 0
		runs.Evals[key] = e
	}
	c, err := Compare(runs, CompareOptions{Baseline: "base"})
	require.NoError(t, err)
	require.Equal(t, MeasureReward, c.Measure)
}
