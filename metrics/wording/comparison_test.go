package wording_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

func totals(experiment string, own, external int, seed int64, reward float64) store.Totals {
	return store.Totals{
		Run:       store.Run{Experiment: experiment, State: store.RunDone, Seed: seed, NumTrainSamples: own, NumTransplantTrees: external},
		NodesSeen: 8, NodeRounds: 80, RoundsDone: 10, CumulativeReward: reward,
	}
}

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

// worded compares runs and sets the texts of the comparison.
func worded(t require.TestingT, runs stats.Runs, o stats.CompareOptions) stats.Comparison {
	c, err := stats.Compare(runs, o)
	require.NoError(t, err)
	wording.Comparison(&c)
	return c
}

func compareAll(t require.TestingT, o stats.CompareOptions, experiments ...[]store.Totals) stats.Comparison {
	c := worded(t, stats.Runs{Totals: slices.Concat(experiments...)}, o)
	_, err := json.Marshal(c)
	require.NoError(t, err)
	return c
}

func TestVerdictsOfSeveralAreCorrected(t *testing.T) {
	base := experiment("base", 0, 8.1, 8.2, 8.3, 8.5, 8.6)
	nearly := experiment("nearly", 2, 8.4, 8.7, 8.8, 8.9, 9)
	alone := compareAll(t, stats.CompareOptions{}, base, nearly)
	require.Equal(t, []string{stats.OutcomeBetter, stats.DecidedByPermutation}, []string{alone.Rows[1].Outcome, alone.Rows[1].DecidedBy})
	require.InDelta(t, 8.0/252, *alone.Rows[1].PermutationPValue, 1e-12, "four arrangements of five of ten ranks sum to 38 at least")
	require.InDelta(t, *alone.Rows[1].PermutationPValue, *alone.Rows[1].PValueHolm, 0)

	much, so := experiment("much", 4, 16, 15.8, 16.2, 15.9, 16.1), experiment("so", 6, 8.1, 8.5, 8.2, 8.3, 8.7)
	c := compareAll(t, stats.CompareOptions{}, base, nearly, much, experiment("one", 6, 12), so)
	require.InDelta(t, 2**c.Rows[1].PermutationPValue, *c.Rows[1].PValueHolm, 1e-12, "of three tests it comes second")
	require.Equal(t, stats.OutcomeUndecided, c.Rows[1].Outcome)
	require.Regexp(t, `^undecided: p = 0\.032, 0\.063 corrected for 3 comparisons with n=5, a repetition needs about \d+ fresh seeds a side$`, c.Rows[1].Verdict)
	require.Equal(t, stats.OutcomeBetter, c.Rows[2].Outcome)
	require.InDelta(t, 2.0/252, *c.Rows[2].PermutationPValue, 1e-12)
	require.InDelta(t, 3*2.0/252, *c.Rows[2].PValueHolm, 1e-12)
	require.InDelta(t, 1, *c.Rows[2].ProbabilityOfImprovement, 0)
	require.Equal(t, "undecided: 1 seed, at least 3 more needed", c.Rows[3].Verdict, "four against five can decide one of three")
	require.Equal(t, 3, *c.Rows[3].MoreSeeds)
	require.Nil(t, c.Rows[3].PermutationPValue)
	require.Contains(t, c.Notes[0], "corrected for 3 comparisons")
	require.Len(t, c.Pairs, 4)

	c = compareAll(t, stats.CompareOptions{Pairs: true}, base, nearly, much)
	require.Len(t, c.Pairs, 3)
	require.Equal(t, []string{"much", "nearly"}, []string{c.Pairs[2].A, c.Pairs[2].B})
}

// Three seeds a side decide nothing, however far they are apart and however low Welch's p-value is. One more a side
// does.
func TestThreeSeedsASideCannotDecide(t *testing.T) {
	rewards, base := []float64{16, 15.8, 16.2, 16.1}, []float64{8, 8.2, 7.8, 8.1}
	c := compareAll(t, stats.CompareOptions{}, experiment("base", 0, base[:3]...), experiment("x", 4, rewards[:3]...))
	row := c.Rows[1]
	require.Equal(t, "undecided: 3 seeds a side cannot decide: an exact permutation test over them does not go below 0.1, at least 1 more seed", row.Verdict)
	require.Equal(t, []any{stats.OutcomeUndecided, stats.DecidedByPermutation, 1}, []any{row.Outcome, row.DecidedBy, *row.MoreSeeds})
	require.Less(t, *row.PValue, 1e-4)
	require.InDelta(t, 0.1, *row.PValueHolm, 1e-12)
	require.Positive(t, *row.CILow)

	row = compareAll(t, stats.CompareOptions{}, experiment("base", 0, base...), experiment("x", 4, rewards...)).Rows[1]
	require.Equal(t, stats.OutcomeBetter, row.Outcome)
	require.InDelta(t, 2.0/70, *row.PValueHolm, 1e-12)

	three := compareAll(t, stats.CompareOptions{}, experiment("base", 0, base...), experiment("x", 4, rewards...), experiment("y", 2, 12, 12.1, 12.2, 12.3),
		experiment("z", 6, 4, 4.1, 4.2))
	require.Equal(t, "undecided: 4 seeds a side cannot decide one of 3 comparisons: an exact permutation test over them does not go below 0.029, "+
		"0.086 corrected, at least 1 more seed", three.Rows[1].Verdict)
	require.Equal(t, "undecided: 3 seeds against 4 cannot decide one of 3 comparisons: an exact permutation test over them does not go below 0.029, "+
		"0.086 corrected, at least 2 more seeds", three.Rows[3].Verdict)
}

// With many seeds a side the arrangements are too many to look at all, and random ones decide.
func TestSamplingDecidesWhereThePermutationTestIsNotExact(t *testing.T) {
	var a, b []float64
	for i := range 9 {
		a, b = append(a, 8+0.1*float64(i)), append(b, 8.3+0.1*float64(i))
	}
	row := compareAll(t, stats.CompareOptions{}, experiment("base", 0, a...), experiment("x", 4, b...)).Rows[1]
	require.Equal(t, stats.DecidedBySampling, row.DecidedBy)
	require.InDelta(t, *row.PermutationPValue, *row.PValueHolm, 0)
	require.InDelta(t, 2102.0/48620, *row.PermutationPValue, 0.004, "the exact p-value")
	require.Equal(t, "sampled permutation test ", wording.Test(row.DecidedBy))
	row = compareAll(t, stats.CompareOptions{}, experiment("base", 0, a[:8]...), experiment("x", 4, b[:8]...)).Rows[1]
	require.Equal(t, stats.DecidedByPermutation, row.DecidedBy)
	require.InDelta(t, *row.PermutationPValue, *row.PValueHolm, 0)
}

func TestTwoSeedsSayHowManyMore(t *testing.T) {
	row := compareAll(t, stats.CompareOptions{}, experiment("base", 0, 8, 9), experiment("x", 4, 10, 9.6)).Rows[1]
	require.Equal(t, "undecided: 2 seeds, at least 2 more needed", row.Verdict)
	row = compareAll(t, stats.CompareOptions{}, experiment("base", 0, 8, 9, 8.5), experiment("x", 4, 10, 9.6, 9)).Rows[1]
	require.Regexp(t, `^undecided: 3 seeds a side cannot decide: an exact permutation test over them does not go below 0\.1, at least \d+ more seeds?$`,
		row.Verdict)
	n, ok := sample.SeedsNeeded([]float64{0.1, 0.1125, 0.10625}, []float64{0.125, 0.12, 0.1125}, 0.05)
	require.True(t, ok)
	require.Greater(t, n, 4)
	require.Equal(t, n-3, *row.MoreSeeds)
	near := compareAll(t, stats.CompareOptions{}, experiment("base", 0, 8, 8.1), experiment("x", 4, 10, 9.9)).Rows[1]
	require.Equal(t, 2, *near.MoreSeeds, "Welch's test would need no more, the permutation test needs four a side")
	same := compareAll(t, stats.CompareOptions{}, experiment("base", 0, 8, 9, 8.5, 8.6), experiment("x", 4, 8, 9, 8.5, 8.6))
	require.Equal(t, "undecided: p = 1 with n=4, a difference too small for 1000 seeds", same.Rows[1].Verdict)
	require.Nil(t, same.Rows[1].MoreSeeds)
	still := compareAll(t, stats.CompareOptions{}, experiment("base", 0, 8, 8, 8), experiment("x", 4, 9, 9, 9))
	require.Equal(t, "undecided: the runs don't vary", still.Rows[1].Verdict)
}

func TestCrashedRunsAreNotMixedIn(t *testing.T) {
	runs := experiment("x", 4, 10, 11, 2)
	runs[2].State = store.RunRunning
	c := compareAll(t, stats.CompareOptions{}, experiment("base", 0, 8), runs)
	require.Equal(t, []int{2, 1, 0}, []int{c.Rows[1].Runs, c.Rows[1].Skipped, c.Rows[1].Unfinished})
	require.Equal(t, []string{"x: 1 run is not done (running) and not counted, unlike the 2 that are."}, c.Notes)
	counted := stats.Counted(runs, stats.CompareOptions{})
	require.Equal(t, []string{"x-1", "x-2"}, []string{counted[0].Run.Run, counted[1].Run.Run})

	runs[0].State, runs[1].State = store.RunStopped, store.RunFailed
	c = compareAll(t, stats.CompareOptions{}, experiment("base", 0, 8), runs)
	require.Equal(t, []string{"x: no run is done; 3 unfinished runs are counted (stopped, failed, running)."}, c.Notes)
}

func TestHeldOutEvaluationsCompareWithinASet(t *testing.T) {
	runs := slices.Concat(experiment("base", 0, 8, 8.1, 8, 8.1), experiment("x", 4, 9, 9.2, 9, 9.2), experiment("alien", 2, 9, 9.2), experiment("none", 6, 9))
	eval := func(run, set string, round int, sum float64) store.EvalTotal {
		return store.EvalTotal{Run: run, Set: set, Round: round, Generations: 4, Nodes: 8, Questions: 10, Correct: int(sum), RewardSum: sum}
	}
	evals := map[string]store.EvalTotal{
		"base-1": eval("base-1", "s", 10, 10), "base-2": eval("base-2", "s", 10, 11), "base-3": eval("base-3", "s", 10, 10), "base-4": eval("base-4", "s", 10, 11),
		"x-1": eval("x-1", "s", 10, 20), "x-2": eval("x-2", "s", 10, 21), "x-3": eval("x-3", "s", 10, 20), "x-4": eval("x-4", "s", 10, 21),
		"alien-1": eval("alien-1", "t", 10, 40),
	}
	c := worded(t, stats.Runs{Totals: runs, Evals: evals}, stats.CompareOptions{Measure: stats.MeasureEval})
	require.Equal(t, []string{stats.BasisEval, "s"}, []string{c.Basis, c.EvalSet})
	require.InDelta(t, 10.5/40, *c.Rows[0].EvalReward, 1e-12)
	require.InDelta(t, (20.5-10.5)/10.5, *c.Rows[1].Improvement, 1e-12)
	require.Equal(t, stats.OutcomeBetter, c.Rows[1].Outcome)
	require.Equal(t, []int{10, 10}, []int{*c.Rows[1].EvalRound, *c.Rows[0].EvalRound})
	require.InDelta(t, 20.5/40, *c.Rows[1].EvalPass1, 1e-12)
	require.Nil(t, c.Rows[2].EvalReward)
	require.Equal(t, "undecided: no held-out evaluation", c.Rows[3].Verdict)
	require.Contains(t, c.Notes,
		"alien: the held-out evaluation of 1 of its 2 runs has other questions or sampling than the baseline's and is not compared.")

	c = worded(t, stats.Runs{Totals: runs, Evals: evals}, stats.CompareOptions{})
	require.InDelta(t, 10.5/40, *c.Rows[0].EvalReward, 1e-12, "shown beside the rewards of training, too")
	require.Equal(t, 4, c.Rows[1].Seeds)
}

func TestCompareVerdicts(t *testing.T) {
	runs := []store.Totals{totals("base", 8, 0, 1, 8), totals("base", 8, 0, 2, 8.2), totals("base", 8, 0, 3, 7.8), totals("base", 8, 0, 4, 8.1)}
	for name, x := range map[string]struct {
		rewards []float64
		seeds   []int64
		verdict string
	}{
		"better":             {[]float64{16, 15.8, 16.2, 16.1}, []int64{1, 2, 3, 4}, "better"},
		"three against four": {[]float64{16, 15.8, 16.2}, []int64{1, 2, 3}, "better"},
		"worse":              {[]float64{4, 3.8, 4.2, 4.1}, []int64{1, 2, 3, 4}, "worse"},
		"undecided":          {[]float64{4, 16, 9, 7}, []int64{1, 2, 3, 4}, "undecided: p = 0.83 with n=4"},
		"a seed repeats":     {[]float64{16, 16, 16}, []int64{1, 1, 1}, "undecided: 1 seed, at least 2 more needed"},
		"two agree entirely": {[]float64{16, 15.8}, []int64{1, 2}, "undecided: 2 seeds, at least 1 more needed"},
	} {
		all := runs
		for i, r := range x.rewards {
			all = append(all[:len(all):len(all)], totals("x", 4, 4, x.seeds[i], r))
		}
		c := worded(t, stats.Runs{Totals: all}, stats.CompareOptions{Baseline: "base"})
		require.Contains(t, c.Rows[1].Verdict, x.verdict, name)
		if row := c.Rows[1]; row.CILow != nil {
			require.Less(t, *row.CILow, *row.Improvement)
			require.Less(t, *row.Improvement, *row.CIHigh)
			require.Equal(t, *row.PValue < 0.05, *row.CILow > 0 || *row.CIHigh < 0, "interval and p-value agree")
		}
	}
}

func TestComparedJobsThatAreUnlikeAreNoted(t *testing.T) {
	same := jobstats.JobComparison{Commands: 1, Batches: 1}
	wording.Jobs(&same)
	require.Equal(t, []string{}, same.Notes)
	unlike := jobstats.JobComparison{Commands: 2, Batches: 2}
	wording.Jobs(&unlike)
	require.Equal(t, []string{"These are not the same command.", "Their effective batches differ, so their training differs."}, unlike.Notes)
}

func TestPairsOfAnotherMeasureAreNamed(t *testing.T) {
	c := stats.Comparison{Caveats: []stats.Caveat{stats.OtherMeasure{Pairs: [][2]string{{"bare", "base"}, {"x", "y"}}}}}
	wording.Comparison(&c)
	require.Equal(t, []string{"Decided by reward per node and round, because not every seed of both has held-out pass@1: bare against base, x against y."}, c.Notes)
}
