package stats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// The last evaluation of one run of b is missing. Then b has values after five rounds only, where it is above c. The
// higher values of c after ten rounds are no evidence that c is above b, nor part of their paired difference.
func TestArmsAreRankedAfterTheRoundsThatAllHave(t *testing.T) {
	runs := Runs{Evals: map[string]store.EvalTotal{}, EvalRounds: map[string][]store.EvalTotal{}}
	d := StudyDesign{Name: "study", Baseline: "a", Contrasts: [][2]string{{"c", "b"}}}
	for i, arm := range []struct {
		name        string
		five, ten   float64
		withoutLast int64 // seed
	}{{"a", 0.30, 0.31, 0}, {"b", 0.50, 0.51, 2}, {"c", 0.45, 0.55, 0}} {
		experiment := "study-" + arm.name
		d.Arms = append(d.Arms, StudyArm{Name: arm.name, Experiment: experiment})
		for seed := int64(1); seed <= 4; seed++ {
			x := totals(experiment, 8-i, i, seed, 0.5)
			x.Run.Run = experiment + string(rune('0'+seed))
			runs.Totals = append(runs.Totals, x)
			for round, pass := range map[int]float64{5: arm.five, 10: arm.ten} {
				if round == 10 && seed == arm.withoutLast {
					continue
				}
				correct := int(math.Round(1000*pass)) + int(seed)
				e := store.EvalTotal{Run: x.Run.Run, Set: "s", Round: round, Generations: 1, Questions: 1000, Correct: correct}
				runs.EvalRounds[x.Run.Run] = append(runs.EvalRounds[x.Run.Run], e)
				if runs.Evals[x.Run.Run].Round < round {
					runs.Evals[x.Run.Run] = e
				}
			}
		}
	}
	c, err := Compare(runs, CompareOptions{Study: &d, Measure: MeasurePass})
	require.NoError(t, err)
	require.Equal(t, []any{"b", "c", 5}, []any{c.Study.Best, c.Study.RunnerUp, c.Study.Judgment.Cut})
	require.InDelta(t, 0.4525, *c.Study.Judgment.Ranked[1].Value, 1e-12)
	require.Equal(t, OutcomeWorse, c.Study.Contrasts[0].Outcome)
	for _, p := range c.Study.Pairs {
		require.InDelta(t, *p.Difference, *p.Paired.Difference, 1e-12, "%s over %s", p.A, p.B)
		require.InDelta(t, *p.Difference / *p.ValueB, *p.Improvement, 1e-12)
	}
	over, ok := c.Study.Judgment.Pair("study-b", "study-a")
	require.True(t, ok)
	require.Equal(t, 5, *over.EvalRound)
	over, _ = c.Study.Judgment.Pair("study-c", "study-a")
	require.Equal(t, 10, *over.EvalRound)
	turned, _ := c.Study.Judgment.Pair("study-a", "study-c")
	require.InDelta(t, *turned.Difference / *turned.ValueB, *turned.Improvement, 1e-12)
	require.InDelta(t, 0.5525, *turned.ValueB, 1e-12, "turned, it is still compared after ten rounds")
}
