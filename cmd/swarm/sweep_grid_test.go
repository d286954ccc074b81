package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/study"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// A grid's arms have the names of their values in the table, as experiments, and in the verdict. The verdict is
// corrected over all pairs of arms.
func TestAGridIsJudgedOverAllOfItsArms(t *testing.T) {
	t.Parallel()
	var runs []finishedRun
	names := []string{"4loc4ext-lr1e-4-G4", "4loc4ext-lr1e-4-G8", "4loc4ext-lr3e-4-G4", "4loc4ext-lr3e-4-G8"}
	for seed := range 5 {
		for arm, name := range names {
			runs = append(runs, finishedRun{nodes: 2, reward: 0.1*float64(arm+1) + 0.001*float64(seed), args: []string{
				"--config", "4loc4ext", "--device", "cpu", "--eval-questions", "0", "--experiment", name, "--seed", fmt.Sprint(42 + seed),
				"--learning-rate", []string{"1e-4", "3e-4"}[arm/2], "--num-generations", []string{"4", "8"}[arm%2],
			}})
		}
	}
	home := finishedRuns(t, runs...)
	args := []string{"sweep", "4loc4ext", "--grid", "learning_rate=1e-4,3e-4", "--grid", "num_generations=4,8", "--seeds", "5", "--model", "nano",
		"--rounds", "4", "--device", "cpu", "--nodes", "2", "--eval-questions", "0", "--external-correction", "none"}
	o := swarm(t, home, args...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "sweep done: 20 of 20 runs done")
	for _, name := range names {
		require.Regexp(t, `(?m)^`+name+` +44 +done `, o.stdout)
	}
	require.Contains(t, o.stdout, "4loc4ext-lr3e-4-G8 (4/4) is best: ")
	require.Contains(t, o.stdout, "above the baseline 4loc4ext-lr1e-4-G4 (4/4)")
	_, again, found := strings.Cut(o.stdout, " compare ")
	require.True(t, found, o.stdout)
	compared := swarm(t, home, append([]string{"compare", "-o", "json"}, strings.Fields(again)...)...)
	require.Equal(t, 0, compared.code, compared.stderr)
	var c stats.Comparison
	require.NoError(t, json.Unmarshal([]byte(compared.stdout), &c))
	require.Len(t, c.Pairs, 6)
	require.Equal(t, stats.OutcomeBetter, c.Pairs[0].Outcome, "the arms are comparable")

	o = swarm(t, home, append(args, "-o", "json")...)
	require.Equal(t, 0, o.code, o.stderr)
	verdict := parseSweep(t, o.stdout).summary.Study
	require.NotNil(t, verdict)
	require.Equal(t, []string{stats.StudyBest, names[3], names[0], stats.MeasureReward}, []string{verdict.Outcome, verdict.Best, verdict.Baseline, verdict.Measure})
	require.Len(t, verdict.Pairs, 6)
	for _, p := range verdict.Pairs {
		require.Equal(t, stats.DecidedByPermutation, p.DecidedBy)
		require.GreaterOrEqual(t, *p.PValueHolm, *p.PermutationPValue)
	}
	require.Greater(t, *verdict.PValueHolm, *verdict.PermutationPValue)
	require.Equal(t, names[1], verdict.Arms[1].Name)
	require.Equal(t, names[1], verdict.Arms[1].Experiment)

	// One more value adds arms to those that are done.
	args[3] = "learning_rate=1e-4,3e-4,1e-3"
	o = swarm(t, home, append(args, "-o", "json", "--dry-run")...)
	require.Equal(t, 0, o.code, o.stderr)
	var planned study.Event
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &planned))
	require.Equal(t, []int{30, 20}, []int{planned.Sweep.Runs, planned.Sweep.Done})
	require.Equal(t, event.Type(study.Planned), planned.Type)
}

// swarm up, started for an arm, has the arm's values and name.
func TestAnArmsRunHasItsValues(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte("model: nano\ndevice: cpu\nlearning_rate: 0.5\n"), 0o644))
	flags, _ := flagsOf(t, "--rounds", "7")
	o := study.Options{Plan: flags, Grid: []string{"learning_rate=1e-4,3e-4", "tasks.system_prompt=none"}}
	sources, err := o.GridSources(study.Host{Host: plan.Host{Sources: configSources}}, []string{"8loc0ext", file})
	require.NoError(t, err)
	var names []string
	for _, source := range sources {
		here := study.OptionsOf(flags, source, false)
		c, _, _, err := configSources([]string{"SWARM_LEARNING_RATE=0.9"}, false).Config(&here.Config)
		require.NoError(t, err)
		names = append(names, c.Experiment)
		require.Equal(t, source.Values["learning_rate"], c.LearningRate)
		require.Equal(t, "none", c.Tasks.SystemPrompt)
		require.Equal(t, 7, c.Rounds)

		up := newUpCommand(&globals{}).Flags()
		up.String("home", "", "")
		require.NoError(t, up.Parse(study.UpArguments("/h", source, c.Seed, 0, nil, false)[1:]))
		require.Equal(t, source.Name, up.Lookup("experiment").Value.String())
		require.Equal(t, fmt.Sprint(c.LearningRate), up.Lookup("learning-rate").Value.String())
	}
	require.Equal(t, []string{"8loc0ext-lr1e-4-system_prompt-none", "8loc0ext-lr3e-4-system_prompt-none", "mine-lr1e-4-system_prompt-none",
		"mine-lr3e-4-system_prompt-none"}, names)
}

func TestABadGridStartsNothing(t *testing.T) {
	t.Parallel()
	mine := filepath.Join(t.TempDir(), "mine.yaml")
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "grid.yaml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(mine, text, 0o644))
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"4loc4ext", "--grid", "learning_rat=1e-4"}, "Error: unknown key \"learning_rat\" (--grid): did you mean \"learning_rate\"?\n"},
		{[]string{"4loc4ext", "--grid", "learning_rate=2,3"}, "Error: bad learning_rate \"2\" (4loc4ext-lr2): allowed: a number from 0 to 1\n"},
		{[]string{"4loc4ext", "--grid", "top_k=1,2", "--top-k", "3"}, "Error: bad top_k \"3\" (--top-k): allowed: none: --grid sets it\n"},
		{[]string{"4loc4ext", "--grid", "top_k=1,2", "--set", "top_k=3"}, "Error: bad top_k \"3\" (--set): allowed: none: --grid sets it\n"},
		{[]string{"4loc4ext", "4loc4ext", "--grid", "top_k=1"}, "Error: 4loc4ext-top_k1 and 4loc4ext-top_k1 have the same experiment name \"4loc4ext-top_k1\"\n"},
		{[]string{"--grid", "top_k=1"}, "Error: sweep needs at least one configuration, or a study\n"},
		{[]string{"--study", "paper", "--grid", "top_k=1"}, "Error: --grid and --study exclude each other\n"},
		{[]string{"--study", mine, "--top-k", "1", "--learning-rate", "1"}, "Error: bad learning_rate \"1\" (--learning-rate): allowed: none: study mine compares values of it\n"},
		{[]string{mine}, "Error: " + mine + " is a study, not a configuration\nTry: swarm sweep --study " + mine + "\n"},
	} {
		home := t.TempDir()
		o := swarm(t, home, append([]string{"sweep", "--model", "nano"}, x.args...)...)
		require.Equal(t, 2, o.code, o.stderr)
		require.Contains(t, o.stderr, x.want)
		require.NoDirExists(t, filepath.Join(home, "runs"))
	}
}

// Every command that accepts a study accepts a user's study by its file.
func TestAUsersStudyIsFoundByItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "examples", "grid.yaml")
	home := finishedRuns(t, finishedRun{nodes: 4, args: []string{"--config", "4loc4ext", "--experiment", "grid-4loc4ext-lr1e-4-G4"}})
	for command, want := range map[string]string{
		"sweep --dry-run --model nano": "(?m)^grid-4loc4ext-lr3e-4-G8 +44 +pending ", "plan": "4 experiments × 5 seeds = 20",
		"compare": `4loc4ext-lr3e-4-G8`, "report --out " + filepath.Join(t.TempDir(), "x.html"): "",
	} {
		args := append(strings.Fields(command), "--study", file)
		if strings.HasPrefix(command, "sweep") {
			args = append(args, "--rounds", "4")
			o := swarm(t, home, args...)
			require.Equal(t, 2, o.code, "its settings are not the study's")
			require.Contains(t, o.stderr, "Error: grid-4loc4ext-lr1e-4-G4 seed 42: run grid-4loc4ext-lr1e-4-G4-1 cannot continue with another configuration:\n  num_generations 8 → 4\n")
			args = append(args[:len(args)-2], "--seeds", "44,")
		}
		o := swarm(t, home, args...)
		require.Equal(t, 0, o.code, "%s: %s", command, o.stderr)
		require.Regexp(t, want, o.stdout, command)
	}
}
