package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// experiment returns finished runs of seeds 1, 2 …, each with 80 node-rounds.
func experiment(name string, external int, rewards ...float64) []store.Totals {
	var runs []store.Totals
	for i, r := range rewards {
		x := totals(name, 8-external, external, int64(i+1), r)
		x.Run.Run = fmt.Sprintf("%s-%d", name, i+1)
		runs = append(runs, x)
	}
	return runs
}

func compareAll(t require.TestingT, o CompareOptions, experiments ...[]store.Totals) Comparison {
	c, err := Compare(Runs{Totals: slices.Concat(experiments...)}, o)
	require.NoError(t, err)
	_, err = json.Marshal(c)
	require.NoError(t, err)
	return c
}

// TestReasonsAndCaveats checks the reasons of verdicts and notes. metrics/wording has their texts.
func TestReasonsAndCaveats(t *testing.T) {
	base := experiment("base", 0, 8, 8.2, 7.8, 8.1, 7.9)
	c := compareAll(t, CompareOptions{}, base, experiment("nearly", 2, 8.1, 8.3, 7.9, 8.2, 8.05), experiment("much", 4, 16, 15.8, 16.2, 16.1, 15.9),
		experiment("one", 6, 12), experiment("so", 6, 8, 8.4, 7.9, 8.15, 7.7), experiment("three", 6, 8.3, 8.3, 8.31))
	var kinds []ReasonKind
	for _, p := range c.Pairs {
		kinds = append(kinds, p.Reason.Kind)
		require.Equal(t, []int{p.SeedsA, p.SeedsB}, []int{p.Reason.SeedsA, p.Reason.SeedsB})
	}
	require.Equal(t, []ReasonKind{ReasonChance, ReasonDecided, ReasonFewSeeds, ReasonChance, ReasonSeedsCannot}, kinds)
	require.Equal(t, 4, c.Pairs[0].Reason.Tests)
	require.InDelta(t, 1.0/56, c.Pairs[4].Reason.Least, 1e-12, "one of the 56 arrangements of three against five")
	require.InDelta(t, 3.0/56, c.Pairs[4].Reason.LeastHolm, 1e-12, "one of the four comparisons is decided")
	require.Equal(t, []Caveat{Corrected{Tests: 4}}, c.Caveats)

	few := compareAll(t, CompareOptions{}, experiment("base", 0, 8, 8.2, 7.8, 8.1, 7.9, 8.3), experiment("x", 4, 16, 16.2)).Pairs[0]
	require.Less(t, *few.PValueHolm, 0.05)
	require.Equal(t, []any{OutcomeUndecided, ReasonFewSeeds, 1}, []any{few.Outcome, few.Reason.Kind, *few.MoreSeeds}, "two seeds decide nothing")

	still := compareAll(t, CompareOptions{}, experiment("base", 0, 8, 8, 8), experiment("x", 4, 9, 9, 9))
	require.Equal(t, ReasonConstant, still.Pairs[0].Reason.Kind)
	still = compareAll(t, CompareOptions{}, experiment("base", 0, 8, 8, 8, 8), experiment("x", 4, 9, 9, 9, 9), experiment("y", 6, 9, 9, 9, 9))
	require.InDelta(t, 2*2.0/70, *still.Pairs[0].PValueHolm, 1e-12)
	require.Equal(t, []Caveat{Corrected{Tests: 2}}, still.Caveats, "tests of values that do not vary are counted, too")
	runs := experiment("x", 4, 10, 11, 2)
	runs[2].State = store.RunRunning
	skipped := compareAll(t, CompareOptions{}, experiment("base", 0, 8), runs)
	require.Equal(t, []Caveat{Skipped{"x", 1, 2, []string{store.RunRunning}}}, skipped.Caveats)
	require.Equal(t, []Caveat{NoBaseline{"x"}}, compareAll(t, CompareOptions{}, experiment("x", 4, 1), experiment("y", 4, 2)).Caveats)
}

func TestPairVerdictsAreAntisymmetric(t *testing.T) {
	opposite := map[string]string{OutcomeBetter: OutcomeWorse, OutcomeWorse: OutcomeBetter, OutcomeUndecided: OutcomeUndecided}
	rapid.Check(t, func(t *rapid.T) {
		rewards := rapid.SliceOfN(rapid.Float64Range(0, 80), 1, 5)
		a, b := experiment("a", 4, rewards.Draw(t, "a")...), experiment("b", 4, rewards.Draw(t, "b")...)
		x := compareAll(t, CompareOptions{Baseline: "b"}, a, b).Pairs[0]
		y := compareAll(t, CompareOptions{Baseline: "a"}, a, b).Pairs[0]
		require.Equal(t, []any{x.A, x.B, opposite[x.Outcome]}, []any{y.B, y.A, y.Outcome})
		require.Equal(t, []any{x.PValue, x.PValueHolm, x.PermutationPValue, x.MoreSeeds}, []any{y.PValue, y.PValueHolm, y.PermutationPValue, y.MoreSeeds})
		require.InDelta(t, -*x.Difference, *y.Difference, 1e-12)
		require.InDelta(t, 1-*x.ProbabilityOfImprovement, *y.ProbabilityOfImprovement, 1e-12)
		if x.CILow != nil {
			require.InDelta(t, -*x.CILow, *y.CIHigh, 1e-9)
			require.InDelta(t, -*x.CIHigh, *y.CILow, 1e-9)
		}
		if x.ImprovementLow != nil && *x.ImprovementLow > -1 && y.ImprovementHigh != nil {
			require.InDelta(t, 1, (1+*x.ImprovementLow)*(1+*y.ImprovementHigh), 1e-6)
		}
		if x.MoreSeeds != nil {
			require.Positive(t, *x.MoreSeeds)
			require.Equal(t, OutcomeUndecided, x.Outcome)
		}
	})
}

func TestTheOrderOfRunsChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rewards := rapid.SliceOfN(rapid.Float64Range(0, 80), 1, 5)
		var runs []store.Totals
		for i, name := range []string{"a", "b", "c"} {
			for _, r := range experiment(name, 2*i, rewards.Draw(t, name)...) {
				r.Seed = rapid.Int64Range(1, 3).Draw(t, "seed")
				r.State = rapid.SampledFrom([]string{store.RunDone, store.RunStopped}).Draw(t, "state")
				runs = append(runs, r)
			}
		}
		byName := func(runs []store.Totals) map[string]Row {
			rows := map[string]Row{}
			for _, r := range compareAll(t, CompareOptions{Baseline: "a"}, runs).Rows {
				rows[r.Experiment] = r
			}
			return rows
		}
		require.Equal(t, byName(runs), byName(rapid.Permutation(runs).Draw(t, "shuffled")))
	})
}

func TestGroupsByConfiguration(t *testing.T) {
	a, again := experiment("a", 4, 10, 11), experiment("again", 4, 12)
	again[0].Seed = 3
	other := experiment("a", 4, 20)
	other[0].Run.Run, other[0].Model = "other", "gpt2"
	base := experiment("base", 0, 8, 8.1)

	c := compareAll(t, CompareOptions{By: ByConfig}, base, a, again, other)
	require.Equal(t, []string{"base", "a", "a#2"}, []string{c.Rows[0].Experiment, c.Rows[1].Experiment, c.Rows[2].Experiment})
	require.Equal(t, []any{3, 3, []string{"a", "again"}}, []any{c.Rows[1].Runs, c.Rows[1].Seeds, c.Rows[1].Experiments})
	require.Equal(t, "a", compareAll(t, CompareOptions{By: ByConfig, Baseline: "again"}, base, a, again).Baseline)
	require.Equal(t, "a#2", compareAll(t, CompareOptions{By: ByConfig, Baseline: "a#2"}, base, a, other).Baseline)

	one := compareAll(t, CompareOptions{By: ByConfig, Key: func(store.Totals) string { return "" }}, base, a)
	require.Len(t, one.Rows, 1)
	require.Empty(t, one.Pairs)
}

func TestMinAndTop(t *testing.T) {
	all := [][]store.Totals{
		experiment("a", 2, 9, 9.1), experiment("base", 0, 8, 8.1), experiment("b", 4, 16, 16.1), experiment("c", 6, 7, 7.1), experiment("d", 6, 12),
	}
	names := func(o CompareOptions) (list []string) {
		c := compareAll(t, o, all...)
		for _, r := range c.Rows {
			list = append(list, r.Experiment)
		}
		for _, p := range c.Pairs {
			require.Contains(t, list, p.A)
		}
		return list
	}
	require.Equal(t, []string{"base", "b", "d"}, names(CompareOptions{Top: 2}))
	require.Equal(t, []string{"base", "b", "d", "a", "c"}, names(CompareOptions{Top: 99}))
	require.Equal(t, []string{"a", "base", "b", "d"}, names(CompareOptions{HasMin: true}))
	require.Equal(t, []string{"base", "b"}, names(CompareOptions{HasMin: true, Min: 0.6}))
	whole, top := compareAll(t, CompareOptions{}, all...), compareAll(t, CompareOptions{Top: 1}, all...)
	require.Equal(t, whole.Rows[2].PValueHolm, top.Rows[1].PValueHolm, "choosing the best to show corrects nothing away")
}

func TestTasksOfAComparison(t *testing.T) {
	runs := slices.Concat(experiment("base", 0, 8, 8), experiment("x", 4, 9))
	tasks := map[string][]store.TaskTotal{
		"base-1": {{Task: "bf", Completions: 10, RewardSum: 1}}, "base-2": {{Task: "bf", Completions: 10, RewardSum: 3}},
		"x-1": {{Task: "bf", Completions: 10, RewardSum: 3}, {Task: "arc", Completions: 4, RewardSum: 1}},
	}
	c, err := Compare(Runs{Totals: runs, Tasks: tasks}, CompareOptions{Tasks: true})
	require.NoError(t, err)
	require.Equal(t, []string{"arc", "bf"}, []string{c.Tasks[0].Task, c.Tasks[1].Task})
	require.Nil(t, c.Tasks[0].Rewards[0].Reward)
	require.InDeltaSlice(t, []float64{0.2, 0.3, 0.5},
		[]float64{*c.Tasks[1].Rewards[0].Reward, *c.Tasks[1].Rewards[1].Reward, *c.Tasks[1].Rewards[1].Improvement}, 1e-12)
	require.Equal(t, 20, c.Tasks[1].Rewards[0].Completions)
}

func TestColumnsOfPaperAndGuide(t *testing.T) {
	rows := compareAll(t, CompareOptions{}, experiment("base", 0, 8), experiment("x", 4, 9), experiment("y", 3, 9)).Rows
	require.Equal(t, &Guide{Reward: [2]float64{200, 300}}, rows[0].Guide)
	require.Equal(t, [2]float64{1.1, 1.5}, *rows[1].Guide.Improvement)
	require.Nil(t, rows[2].Guide)
	require.Nil(t, rows[2].PaperReward)
}

// The mean of such rewards is not finite, so that no test applies to them.
func TestAPairWithoutAFiniteDifferenceIsUndecided(t *testing.T) {
	p := newPair(side{"a", []float64{0, 0, 0, 0}}, side{"b", []float64{math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64}})
	require.Nil(t, p.Difference)
	require.Nil(t, p.PermutationPValue)
	require.Empty(t, p.DecidedBy)
}

// A corrupt or hostile database yields nulls and zeros, never a document that cannot be encoded.
func TestCompareOfFiguresThatAreNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strange := rapid.SampledFrom([]float64{nan, math.Inf(1), math.Inf(-1), math.MaxFloat64, -5, 0, 1})
		var runs []store.Totals
		evals := map[string]store.EvalTotal{}
		for _, name := range []string{"a", "b"} {
			for _, r := range experiment(name, 0, rapid.SliceOfN(strange, 1, 4).Draw(t, name)...) {
				r.NodeRounds = rapid.SampledFrom([]int{0, 1, 80, -3}).Draw(t, "node-rounds")
				evals[r.Run.Run] = store.EvalTotal{Set: "s", Questions: rapid.IntRange(-1, 2).Draw(t, "questions"), Generations: 1,
					RewardSum: strange.Draw(t, "sum")}
				runs = append(runs, r)
			}
		}
		for _, measure := range []string{MeasureReward, MeasureEval} {
			c, err := Compare(Runs{Totals: runs, Evals: evals}, CompareOptions{Measure: measure, Target: 1, Tasks: true, Pairs: true})
			require.NoError(t, err)
			_, err = json.Marshal(c)
			require.NoError(t, err)
		}
	})
}
