package stats

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// contrastsOf decides contrasts of arms a, b and c with the given own rewards, seeds 1, 2, 3 and so on.
func contrastsOf(t *testing.T, values map[string][]float64, contrasts ...[2]string) []StudyContrast {
	t.Helper()
	d := &StudyDesign{Name: "study", Contrasts: contrasts}
	var runs Runs
	for external, name := range []string{"a", "b", "c"} {
		d.Arms = append(d.Arms, StudyArm{Name: name, Experiment: "study-" + name})
		runs.Totals = append(runs.Totals, experiment("study-"+name, external, cumulative(values[name])...)...)
	}
	c, err := Compare(runs, CompareOptions{Study: d, Measure: MeasureReward})
	require.NoError(t, err)
	return c.Study.Contrasts
}

// Five seeds that all lie above five others: one arrangement of 252 is as far apart, and its mirror image.
func TestExactPermutationDecidesPlannedComparisons(t *testing.T) {
	high, low := []float64{0.35, 0.351, 0.352, 0.353, 0.36}, []float64{0.31, 0.32, 0.321, 0.319, 0.33}
	c := contrastsOf(t, map[string][]float64{"a": high, "b": low, "c": high}, [2]string{"a", "b"}, [2]string{"b", "c"}, [2]string{"a", "c"})
	require.InDelta(t, 2.0/252, *c[0].PermutationPValue, 1e-12)
	require.InDelta(t, 3*2.0/252, *c[0].PValueHolm, 1e-12)
	require.InDelta(t, 3*2.0/252, *c[0].LeastPValue, 1e-12)
	require.Equal(t, []string{OutcomeBetter, OutcomeWorse, OutcomeUndecided}, []string{c[0].Outcome, c[1].Outcome, c[2].Outcome})
	require.Equal(t, []any{true, DecidedByPermutation}, []any{c[0].Exact, c[0].DecidedBy})
	require.InDelta(t, 0.0332, *c[0].Difference, 1e-12)
	require.InDelta(t, -0.0332, *c[1].Difference, 1e-12)
}

// A planned comparison also decides a pair of the paper's order, whichever of its sides comes first. Four seeds decide
// one comparison, but none of three.
func TestAPlannedComparisonDecidesAPairOfThePaper(t *testing.T) {
	var runs Runs
	d := &StudyDesign{Name: "study"}
	for i, values := range [][]float64{{0.5, 0.51, 0.52, 0.53}, {0.1, 0.2, 0.3, 0.4}, {0.11, 0.21, 0.31, 0.39}} { // the paper's order is c, b, a
		name := []string{"a", "b", "c"}[i]
		d.Arms = append(d.Arms, StudyArm{Name: name, Experiment: "study-" + name})
		runs.Totals = append(runs.Totals, experiment("study-"+name, 2*i, cumulative(values)...)...)
	}
	runs.Evals = map[string]store.EvalTotal{}
	for _, r := range runs.Totals {
		runs.Evals[r.Run.Run] = store.EvalTotal{Run: r.Run.Run, Set: "s", Round: 10, Generations: 1, Questions: 100, Correct: 50 + int(r.Seed)}
	}
	for _, test := range []struct {
		planned  [2]string
		outcomes []string // of c over b, c over a, b over a
	}{
		{[2]string{"a", "b"}, []string{PaperOpen, PaperOpen, PaperContradicted}},
		{[2]string{"b", "a"}, []string{PaperOpen, PaperOpen, PaperContradicted}},
		{[2]string{"b", "c"}, []string{PaperOpen, PaperOpen, PaperOpen}},
	} {
		d.Contrasts = [][2]string{test.planned}
		c, err := Compare(runs, CompareOptions{Study: d, Measure: MeasurePass})
		require.NoError(t, err)
		for i, pair := range c.Study.Paper.Pairs {
			require.Equal(t, []string{PaperOpen, test.outcomes[i]}, []string{pair.Outcome, pair.ByReward}, "pass@1 is level, and rewards decide as if they were the measure")
		}
		c, err = Compare(runs, CompareOptions{Study: d, Measure: MeasureReward})
		require.NoError(t, err)
		require.Equal(t, []string{"c", "b", "a"}, c.Study.Paper.Order)
		for i, pair := range c.Study.Paper.Pairs {
			require.Equal(t, test.outcomes[i], pair.Outcome, "%v, %v", test.planned, pair)
			require.Equal(t, test.outcomes[i], pair.ByReward, "by own reward it is the same")
		}
	}
}

// Three seeds a side decide nothing, however far they are apart.
func TestThreeSeedsDecideNoPlannedComparison(t *testing.T) {
	c := contrastsOf(t, map[string][]float64{"a": {0.9, 0.91, 0.92}, "b": {0, 0.1, 0.2}}, [2]string{"a", "b"})[0]
	require.InDelta(t, 0.1, *c.PermutationPValue, 1e-12)
	require.InDelta(t, 0.1, *c.LeastPValue, 1e-12)
	require.Equal(t, OutcomeUndecided, c.Outcome)
}

// Two seeds decide nothing, however many the other side has.
func TestTwoSeedsDecideNoPlannedComparison(t *testing.T) {
	c := contrastsOf(t, map[string][]float64{"a": {0.9, 0.91}, "b": {0, 0.1, 0.2, 0.15, 0.3}}, [2]string{"a", "b"})[0]
	require.Less(t, *c.PValueHolm, 0.05)
	require.Equal(t, []any{OutcomeUndecided, false}, []any{c.Outcome, c.CanDecide()})
}

// A planned comparison without runs counts as a test, so that running it later changes no decision.
func TestPlannedComparisonsCountBeforeTheyAreRun(t *testing.T) {
	c := contrastsOf(t, map[string][]float64{"a": {0.5, 0.51, 0.52, 0.53, 0.54}, "b": {0, 0.1, 0.2, 0.3, 0.4}}, [2]string{"a", "b"}, [2]string{"a", "c"})
	require.Greater(t, *c[0].PValue, *c[0].PermutationPValue)
	require.InDelta(t, 2**c[0].PValue, *c[0].PValueHolm, 1e-12, "the larger p-value decides")
	require.Nil(t, c[1].PValueHolm)
	require.Nil(t, c[1].Difference)
	require.Equal(t, []any{5, 0, OutcomeUndecided}, []any{c[1].SeedsA, c[1].SeedsB, c[1].Outcome})
}

// Nine seeds a side have 48,620 arrangements. A planned comparison and the same pair of a study are then decided by one
// sampled permutation test.
func TestManySeedsAreDecidedByASampledTest(t *testing.T) {
	values := map[string][]float64{}
	for i := range 9 {
		values["a"], values["b"] = append(values["a"], 0.43+0.01*float64(i)), append(values["b"], 0.38+0.01*float64(i))
	}
	c := contrastsOf(t, values, [2]string{"a", "b"})[0]
	require.Equal(t, []any{OutcomeBetter, false, DecidedBySampling}, []any{c.Outcome, c.Exact, c.DecidedBy})
	require.InDelta(t, *c.PermutationPValue, *c.PValueHolm, 0, "one planned comparison")
	require.InDelta(t, 120.0/48620, *c.PermutationPValue, 0.001, "the exact p-value")
	p := compareAll(t, CompareOptions{Baseline: "b"}, experiment("a", 0, cumulative(values["a"])...), experiment("b", 1, cumulative(values["b"])...)).Pairs[0]
	require.Equal(t, []string{OutcomeBetter, DecidedBySampling}, []string{p.Outcome, p.DecidedBy})
	require.InDelta(t, *c.PermutationPValue, *p.PermutationPValue, 0)
	require.InDelta(t, *p.PermutationPValue, *p.PValueHolm, 0)
}

// cumulative returns the sums of experiment's 80 node-rounds with these rewards.
func cumulative(rewards []float64) []float64 {
	out := make([]float64, len(rewards))
	for i, v := range rewards {
		out[i] = 80 * v
	}
	return out
}
