package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// seeded returns variants of a run, one per reward, with seeds 1, 2 and so on.
func seeded(r comparedRun, rewards ...float64) []comparedRun {
	var runs []comparedRun
	for i, reward := range rewards {
		x := r
		x.seed, x.reward = int64(i+1), reward
		runs = append(runs, x)
	}
	return runs
}

func comparisonOf(t *testing.T, home string, args ...string) stats.Comparison {
	t.Helper()
	o := swarm(t, home, append([]string{"compare", "-o", "json"}, args...)...)
	require.Zero(t, o.code, o.stderr)
	var c stats.Comparison
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &c))
	return c
}

// Two equal configurations, four seeds each, 3 rounds against 40: the longer one has higher rewards but is not
// better.
func TestLongerTrainingIsNotCalledBetter(t *testing.T) {
	t.Parallel()
	short := seeded(comparedRun{experiment: "short", rounds: 3, gain: 0.01}, 0.10, 0.11, 0.12, 0.13)
	long := seeded(comparedRun{experiment: "long", rounds: 40, gain: 0.01}, 0.11, 0.10, 0.12, 0.13)
	stray := seeded(comparedRun{experiment: "whole", rounds: 40, gain: 0.01}, 0.11, 0.12, 0.13, 0.14)
	once := comparedRun{experiment: "once", seed: 1, rounds: 1, reward: 0.1}
	home := comparedHome(t, slices.Concat(short, long, stray, []comparedRun{once})...)

	o := swarm(t, home, "compare", "long", "--baseline", "short", "--gate")
	require.Equal(t, exitUndecided, o.code, o.stdout)
	require.Contains(t, o.stdout, "long against short: undecided: p = 1 with n=4")
	require.Contains(t, o.stdout, "(over rounds 1-3; reward per node and round +0.0000")
	require.Contains(t, o.stdout, "  also different: rounds 40 against 3.")
	require.Contains(t, o.stdout, "Runs of different length are compared over the rounds that all runs of both sides have.")

	c := comparisonOf(t, home, "--baseline", "long")
	rows := map[string]stats.Row{}
	for _, r := range c.Rows {
		rows[r.Name] = r
	}
	require.Equal(t, []*stats.Span{{From: 1, To: 3}, {From: 1, To: 40}, {From: 1, To: 40}},
		[]*stats.Span{rows["short"].RoundsCompared, rows["long"].RoundsCompared, rows["whole"].RoundsCompared}, "the short one shortens only its own pair")
	require.InDelta(t, 2*(0.115+0.125+0.135), rows["short"].CumulativeReward, 1e-9, "two nodes, three rounds, mean over seeds")
	require.InDelta(t, 0, *rows["short"].Improvement, 1e-9)
	require.Equal(t, []any{3, 40}, []any{rows["short"].Rounds, rows["long"].Rounds})
	require.Equal(t, "undecided: different length", rows["once"].Verdict, "the first round's rewards are of the first weights")
	require.Nil(t, rows["once"].Improvement)
}

// Held-out evaluations compare only if both sides have one after the same number of training rounds.
func TestEvaluationsAfterDifferentRoundsDoNotCompare(t *testing.T) {
	t.Parallel()
	short := seeded(comparedRun{experiment: "short", rounds: 3, correct: 10}, 0.1, 0.1, 0.1)
	long := seeded(comparedRun{experiment: "long", rounds: 40, correct: 60}, 0.1, 0.1, 0.1)
	for i := range short {
		short[i].correct, long[i].correct = 10+i, 60+i
	}
	home := comparedHome(t, slices.Concat(short, long)...)
	o := swarm(t, home, "compare", "long", "--baseline", "short", "--measure", "pass", "--gate")
	require.Equal(t, exitUndecided, o.code, o.stdout)
	require.Contains(t, o.stdout, "long against short: undecided: different length\n")
}

func TestAVerdictNamesWhatElseDiffers(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, slices.Concat(
		seeded(comparedRun{experiment: "8loc0ext"}, 0.30, 0.31, 0.32, 0.33),
		seeded(comparedRun{experiment: "more", external: 4, nodes: 4}, 0.5, 0.51, 0.53, 0.52),
		seeded(comparedRun{experiment: "lots", nodes: 4}, 0.5, 0.51, 0.53, 0.52),
		seeded(comparedRun{experiment: "both", nodes: 4, rate: 0.01}, 0.5, 0.51, 0.53, 0.52),
		seeded(comparedRun{experiment: "versions", external: 4, before: func(c *configs.Config, r *store.Run) {
			c.CheckpointEvery = 3
			r.Versions = json.RawMessage(`{"swarm": "b", "torch": "2.8"}`)
			r.Plan = json.RawMessage(`{"share": "lease"}`)
		}}, 0.5, 0.51, 0.53, 0.52))...)
	gate := func(name string, flags ...string) outcome {
		return swarm(t, home, append([]string{"compare", "8loc0ext", name, "--gate"}, flags...)...)
	}
	o := gate("more")
	require.Equal(t, exitUndecided, o.code)
	require.Contains(t, o.stdout, "more against 8loc0ext: not comparable: nodes 4 against 2\n")
	require.Contains(t, o.stdout, "--despite nodes")
	require.NotContains(t, o.stdout, "p = ", "of what does not compare there is no difference")
	require.Regexp(t, `(?m)^more .* not comparable$`, o.stdout)
	o = gate("more", "--despite", "nodes")
	require.Zero(t, o.code, o.stdout)
	require.Contains(t, o.stdout, "  different, but compared anyway: nodes 4 against 2.")
	require.Zero(t, gate("lots").code, "the only difference is what is compared")
	require.Contains(t, gate("lots").stdout, "  under study: nodes 4 against 2.")
	require.Contains(t, gate("both").stdout, "not comparable: learning_rate 0.01 against 0.001, nodes 4 against 2")
	require.Zero(t, gate("both", "--despite", "learning_rate").code, "then there is one difference left")
	require.Zero(t, gate("versions").code)
	require.Contains(t, gate("versions").stdout, "  also different: checkpoint_every 3 against 10.", "what isn't known of one isn't known to differ")

	o = gate("more", "--despite", "node")
	require.Equal(t, fail.ExitUsage, o.code)
	require.Contains(t, o.stderr, `bad despite "node": did you mean "nodes"?`)
	c := comparisonOf(t, home, "more")
	require.Empty(t, c.Baseline)
	c = comparisonOf(t, home, "more", "8loc0ext")
	require.Equal(t, []stats.RowDifference{
		{Key: "nodes", Baseline: "2", Value: "4", Role: stats.RoleConfounder},
		{Key: "num_train_samples", Baseline: "8", Value: "4", Role: stats.RoleStudy},
		{Key: "num_transplant_trees", Baseline: "0", Value: "4", Role: stats.RoleStudy},
	}, c.Rows[1].Differs)
	require.Equal(t, stats.OutcomeNotComparable, c.Rows[1].Outcome)
}

func TestAnExperimentOfSeveralSettingsIsInSeveralRows(t *testing.T) {
	t.Parallel()
	eight := seeded(comparedRun{experiment: "8loc0ext", nodes: 4}, 0.3, 0.31)
	four := comparedRun{experiment: "8loc0ext", seed: 3, reward: 0.5}
	home := comparedHome(t, slices.Concat(eight, []comparedRun{four}, seeded(comparedRun{experiment: "x", external: 4, nodes: 4}, 0.3, 0.31, 0.4))...)
	c := comparisonOf(t, home)
	var rows []string
	for _, r := range c.Rows {
		rows = append(rows, r.Name+"|"+r.Experiment+"|"+r.Part)
	}
	require.Equal(t, []string{"8loc0ext (nodes 4)|8loc0ext|nodes 4", "8loc0ext (nodes 2)|8loc0ext|nodes 2", "x|x|"}, rows)
	require.Equal(t, "8loc0ext (nodes 4)", c.Baseline, "the part with more seeds")
	require.Contains(t, c.Notes, "8loc0ext: its runs have different settings and are in 2 rows: nodes 4 (2 runs); nodes 2 (1 run).")
	require.Equal(t, "8loc0ext (nodes 2)", comparisonOf(t, home, "--baseline", "8loc0ext (nodes 2)").Baseline)
	require.Len(t, comparisonOf(t, home, "--despite", "nodes").Rows, 2)
	require.Contains(t, swarm(t, home, "compare").stdout, "\n8loc0ext (nodes 2)")
}

// One more run changes no verdict: the baseline has the preset 8loc0ext or is given.
func TestTheBaselineIsNeverFoundByAccident(t *testing.T) {
	t.Parallel()
	own := func(name, preset string) comparedRun {
		return comparedRun{experiment: name, preset: preset, reward: 0.3}
	}
	sharing := comparedRun{experiment: "4loc4ext", external: 4, reward: 0.5}
	for name, x := range map[string]struct {
		runs []comparedRun
		want string
	}{
		"by name":               {[]comparedRun{own("default", ""), sharing, own("8loc0ext", "8loc0ext")}, "8loc0ext"},
		"by preset":             {[]comparedRun{own("default", ""), own("other", ""), sharing, own("mine", "8loc0ext")}, "mine"},
		"of a study":            {[]comparedRun{own("default", ""), own("other", ""), sharing, own("paper-8loc0ext", "")}, "paper-8loc0ext"},
		"by its configuration":  {[]comparedRun{own("default", ""), sharing, own("mine", "")}, "mine"},
		"several":               {[]comparedRun{own("one", ""), sharing, own("other", "")}, ""},
		"unnamed":               {[]comparedRun{own("default", ""), sharing}, ""},
		"none without sharing":  {[]comparedRun{sharing, {experiment: "2loc6ext", external: 6, reward: 0.4}}, ""},
		"a preset that shares":  {[]comparedRun{{experiment: "8loc0ext", external: 4, preset: "8loc0ext", reward: 0.2}, sharing}, ""},
		"its name without more": {[]comparedRun{own("8loc0ext", ""), own("again", "8loc0ext")}, "8loc0ext"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := comparedHome(t, x.runs...)
			c := comparisonOf(t, home)
			require.Equal(t, x.want, c.Baseline)
			if x.want != "" {
				return
			}
			require.Empty(t, c.Pairs)
			for _, r := range c.Rows {
				require.Empty(t, r.Verdict+r.Outcome)
			}
			require.True(t, slices.IsSortedFunc(c.Rows, func(a, b stats.Row) int { return int(1e6 * (*b.Value - *a.Value)) }), "ranked")
			require.Contains(t, strings.Join(c.Notes, "\n"), "Try: swarm compare --baseline ")
			if len(c.Rows) != 2 {
				return
			}
			o := swarm(t, home, "compare", "--gate")
			require.Equal(t, fail.ExitUsage, o.code)
			require.Contains(t, o.stderr, "--gate needs a baseline, and no row is the baseline\nTry: swarm compare --baseline NAME")
			require.Equal(t, fail.ExitUsage, swarm(t, home, "compare", "--min", "0").code)
		})
	}
}
