package main

import (
	"cmp"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// comparedRun is a run to write into a database. left is the number of missing rounds.
type comparedRun struct {
	experiment string
	seed       int64
	external   int
	reward     float64 // per node-round
	rate       float64 // learning rate; 0: 0.001
	left       int
	correct    int    // of the 100 held-out completions of each node; 0: no evaluation
	split      string // the configuration's
	state      string // final state; empty: done, or stopped

	rounds int     // planned; 0: 20
	nodes  int     // 0: 2
	gain   float64 // increase of the reward per round
	preset string
	before func(*configs.Config, *store.Run) // changes the record before it is written
}

// comparedHome is a home whose database has those runs, with two nodes and 20 rounds by default.
func comparedHome(t *testing.T, runs ...comparedRun) string {
	t.Helper()
	home := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	for i, r := range runs {
		c := configs.Default()
		c.Experiment, c.Model, c.Seed, c.LearningRate = r.experiment, "nano", r.seed, r.rate
		if r.rate == 0 {
			c.LearningRate = 0.001
		}
		c.NumTrainSamples, c.NumTransplantTrees = 8-r.external, r.external
		c.ExternalCorrection, c.ExternalFilter = configs.CorrectionNone, configs.FilterNone // as in the paper's runs
		if r.split != "" {
			c.Split = r.split
		}
		c.Rounds, c.Preset = cmp.Or(r.rounds, 20), r.preset
		run := store.Run{Run: fmt.Sprintf("%s-%d", r.experiment, i), Experiment: r.experiment, Model: c.Model, Seed: r.seed, Rounds: c.Rounds,
			NumTrainSamples: c.NumTrainSamples, NumTransplantTrees: r.external, NumGenerations: 8, Preset: r.preset, Started: float64(1000 + 100*i)}
		for n := range cmp.Or(r.nodes, 2) {
			run.NodeIDs = append(run.NodeIDs, fmt.Sprint("node_", n))
		}
		if r.before != nil {
			r.before(&c, &run)
		}
		var err error
		run.Config, err = json.Marshal(c)
		require.NoError(t, err)
		require.NoError(t, s.StartRun(t.Context(), run))
		for round := range run.Rounds - r.left {
			for _, node := range run.NodeIDs {
				require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeRound, Run: run.Run, Node: node,
					Time: run.Started + float64(round), Round: &event.Round{Round: round, Reward: r.reward + r.gain*float64(round)}}))
			}
		}
		for _, node := range run.NodeIDs {
			if r.correct > 0 {
				require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeEval, Run: run.Run, Node: node, Time: run.Started + 40,
					Eval: &event.Eval{Round: run.Rounds, Set: "s", Generations: 100, Questions: []event.EvalQuestion{{Task: "bf", Correct: r.correct}}}}))
			}
		}
		state := event.State(r.state)
		switch {
		case r.state != "":
		case r.left > 0:
			state = store.RunStopped
		default:
			state = store.RunDone
		}
		require.NoError(t, s.Record(t.Context(), event.Event{Type: event.TypeRunEnded, Run: run.Run, Time: run.Started + 50, State: state}))
	}
	require.NoError(t, s.Close())
	return home
}

// threeSeeds are runs of an experiment, one a reward, of seeds 0, 1, 2 and so on.
func threeSeeds(experiment string, external int, rewards ...float64) []comparedRun {
	var runs []comparedRun
	for i, r := range rewards {
		runs = append(runs, comparedRun{experiment: experiment, seed: int64(i), external: external, reward: r})
	}
	return runs
}

func TestCompareGate(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, slices.Concat(threeSeeds("base", 0, 0.30, 0.31, 0.32, 0.33), threeSeeds("up", 4, 0.5, 0.51, 0.53, 0.52),
		threeSeeds("near", 2, 0.29, 0.33, 0.35, 0.34), threeSeeds("three", 4, 0.6, 0.61, 0.62), threeSeeds("three-base", 0, 0.3, 0.31, 0.32))...)
	for _, x := range []struct {
		args string
		code int
	}{
		{"up --baseline base", 0}, {"base --baseline up", exitWorse}, {"near --baseline base", exitUndecided}, {"up base -o json", 0},
		{"three --baseline three-base", exitUndecided}, {"three --baseline base", 0},
		{"up near base", fail.ExitUsage}, {"up", fail.ExitUsage}, {"up base --top 1", fail.ExitUsage}, {"up base --min 0", fail.ExitUsage}, {"nosuch base", fail.ExitUsage},
	} {
		o := swarm(t, home, append([]string{"compare", "--gate"}, strings.Fields(x.args)...)...)
		require.Equal(t, x.code, o.code, "%s: %s", x.args, o.stderr)
		if x.code == fail.ExitUsage {
			require.Regexp(t, `^Error: .*\nTry: `, o.stderr)
			require.Empty(t, o.stdout)
		} else {
			require.Empty(t, o.stderr)
		}
	}
	o := swarm(t, home, "compare", "near", "--baseline", "base")
	require.Regexp(t, `near against base: undecided: p = 0\.\d+ with n=4, a repetition needs about \d+ fresh seeds a side \(reward per node and round \+0\.0125, \+4\.0 %, `+
		`95 % interval -0\.\d+ to \+0\.\d+; exact permutation test p = 0\.\d+; chance of improvement 0\.\d+ \(0\.\d+ to [01]\.\d+\)\)`, o.stdout)
	o = swarm(t, home, "compare", "three", "--baseline", "three-base")
	require.Contains(t, o.stdout, "three against three-base: undecided: 3 seeds a side cannot decide: "+
		"an exact permutation test over them does not go below 0.1, at least 1 more seed (reward per node and round +0.3000")
}

// Figures without a formula for their interval have one by bootstrap.
func TestCompareBootstraps(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, append(threeSeeds("base", 0, 0.30, 0.31, 0.32, 0.5), threeSeeds("x", 4, 0.33, 0.31, 0.49, 0.6)...)...)
	c := comparisonOf(t, home)
	base, x := c.Rows[0], c.Rows[1]
	require.InDelta(t, 0.315, *base.IQM, 1e-9, "the mean of the middle two")
	require.InDelta(t, 0.41, *x.IQM, 1e-9)
	require.Less(t, *base.IQMLow, *base.IQM)
	require.Greater(t, *base.IQMHigh, *base.IQM)
	require.Equal(t, []float64{*c.Pairs[0].ProbabilityLow, *c.Pairs[0].ProbabilityHigh}, []float64{*x.ProbabilityLow, *x.ProbabilityHigh})
	require.Less(t, *x.ProbabilityLow, *x.ProbabilityOfImprovement)
	require.Greater(t, *x.ProbabilityHigh, *x.ProbabilityOfImprovement)
	require.Regexp(t, `chance of improvement 0\.\d\d \([01]\.\d\d to [01]\.\d\d\)`, swarm(t, home, "compare").stdout)
}

func TestCompareByConfig(t *testing.T) {
	t.Parallel()
	runs := append(threeSeeds("base", 0, 0.3, 0.31, 0.32), threeSeeds("x", 4, 0.5, 0.51)...)
	runs = append(runs, comparedRun{experiment: "renamed", seed: 9, external: 4, reward: 0.52},
		comparedRun{experiment: "x", seed: 3, external: 4, reward: 0.7, rate: 0.01},
		comparedRun{experiment: "x", seed: 4, external: 4, reward: 0.1, left: 5})
	home := comparedHome(t, runs...)
	var c stats.Comparison
	o := swarm(t, home, "compare", "--by", "config", "-o", "json")
	require.Equal(t, 0, o.code, o.stderr)
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &c))
	var groups []string
	for _, r := range c.Rows {
		groups = append(groups, fmt.Sprint(r.Experiment, r.Runs, r.Skipped, r.Experiments))
	}
	require.Equal(t, []string{"base3 0 [base]", "x3 1 [x renamed]", "x#21 0 [x]"}, groups, "another learning rate is another configuration")
}

func TestCompareWritesColumns(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, append(threeSeeds("base", 0, 0.3, 0.31, 0.32, 0.33), threeSeeds("x", 4, 0.5, 0.52, 0.51, 0.53)...)...)
	file := filepath.Join(t.TempDir(), "rows.csv")
	o := swarm(t, home, "compare", "--csv", file)
	require.Equal(t, 0, o.code, o.stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, strings.FieldsFunc(terminal.ComparisonColumns(), func(r rune) bool { return strings.ContainsRune(", \n", r) }), rows[0])
	require.Len(t, rows, 3)

	o = swarm(t, home, "compare", "--csv", "-", "--columns", "experiment,improvement,cumulative_reward,eval_reward,more_seeds")
	require.Equal(t, "experiment,improvement,cumulative_reward,eval_reward,more_seeds", strings.Split(o.stdout, "\n")[0])
	require.Regexp(t, `\nx,0\.63\d+,20\.\d+,,\n`, o.stdout, "numbers in full, nothing for what isn't known")
	o = swarm(t, home, "compare", "--csv", "-", "--columns", "experiment,target_reached,target_rounds")
	require.Equal(t, "experiment,target_reached,target_rounds\nbase,,\nx,,\n", o.stdout, "without --target nobody reached or missed it")
	o = swarm(t, home, "compare", "--columns", "experiment,p_value,permutation_p_value,decided_by,guide_reward_low,verdict")
	require.Regexp(t, `(?m)^experiment +p \(Welch\) +p \(permutation\) +decided by +guide \(GPT-2, est\.\) +verdict and why$`, o.stdout)
	require.Regexp(t, `(?m)^x +\d\S*e-0\d +0\.029 +permutation +500-700 \(\+110 to \+150 %\) +better$`, o.stdout)

	o = swarm(t, home, "compare", "--target", "0.4", "--window", "5", "--tasks")
	require.Regexp(t, `(?m)^base .* 0 of 4 +– +– .* baseline$`, o.stdout)
	require.Regexp(t, `(?m)^x .* 4 of 4 +5 +4s .* better$`, o.stdout)
	o = swarm(t, home, "compare", "--target", "0.4")
	require.Contains(t, o.stdout, "x: 4 of its 4 runs did fewer rounds than the target's window of 100 and cannot have reached it.")
}

func TestCompareSaysThatItCannotWriteItsFile(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, threeSeeds("base", 0, 0.3)...)
	o := swarm(t, home, "compare", "--csv", filepath.Join(home, "none", "x.csv"))
	require.Equal(t, fail.ExitFailed, o.code)
	require.Regexp(t, `^Error: write the rows: .*none/x\.csv: no such file or directory\nTry: another file with --csv`, o.stderr)
	require.Empty(t, o.stdout)
}

func TestCompareRefuses(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, threeSeeds("base", 0, 0.3)...)
	for args, want := range map[string]string{
		"--by node":           "by",
		"--measure loss":      "measure",
		"--target 0":          "target",
		"--target NaN":        "target",
		"--target -1":         "target",
		"--window 0":          "window",
		"--top 0":             "top",
		"--min much":          "min",
		"--columns reward":    "columns",
		"--csv - -o json":     "stdout",
		"--baseline nosuch":   "nosuch",
		"base --baseline not": "not",
		"nosuch":              `no experiment "nosuch" is recorded`,
		"base-0":              `"base-0" is a run, but compare takes experiments`,
	} {
		o := swarm(t, home, append([]string{"compare"}, strings.Fields(args)...)...)
		require.Equal(t, fail.ExitUsage, o.code, args)
		require.Empty(t, o.stdout)
		require.Contains(t, strings.Split(o.stderr, "\n")[0], want, args)
		require.LessOrEqual(t, strings.Count(o.stderr, "\n"), 2, o.stderr)
	}
	one := swarm(t, home, "compare", "--min", "-50%", "--top", "3")
	require.Equal(t, 0, one.code, one.stderr)
	require.Regexp(t, `(?m)^base .* baseline$`, one.stdout)
}

func TestCompareOfAHostileName(t *testing.T) {
	t.Parallel()
	home := comparedHome(t, threeSeeds("base", 0, 0.3)...)
	db, err := sql.Open("sqlite3", filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "UPDATE runs SET experiment = ?", "\x1b[2J\tevil\n")
	require.NoError(t, errors.Join(err, db.Close()))
	o := swarm(t, home, "compare")
	require.Equal(t, 0, o.code, o.stderr)
	require.NotContains(t, o.stdout, "\x1b")
	require.Regexp(t, `(?m)^ evil\S? +8/0 .* baseline$`, o.stdout)
}
