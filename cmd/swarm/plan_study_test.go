package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
)

func TestAPlanRepeatsItsFlagsForTheSweep(t *testing.T) {
	t.Parallel()
	o := swarm(t, t.TempDir(), "plan", "--study", "paper", "--model", "gpt2", "--gpu-memory", "80GB", "--price", "$2/h", "--seeds", "5",
		"--rounds", "100", "--set", "temperature=0.5", "--set", "top_p=0.9", "--gradient-checkpointing")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, " sweep --study paper --model gpt2 --gpu-memory=80GB --gradient-checkpointing=true --price='$2/h' "+
		"--rounds=100 --seeds=5 --set=temperature=0.5 --set=top_p=0.9\n")
}

// A plan warns of seeds that are too few for any verdict: of the planned comparisons if the study has them, else of all
// pairs.
func TestAPlanWarnsOfSeedsThatCannotDecide(t *testing.T) {
	t.Parallel()
	plan := func(study, seeds string) string {
		o := swarm(t, t.TempDir(), "plan", "--study", study, "--model", "gpt2", "--gpu-memory", "80GB", "--seeds", seeds)
		require.Zero(t, o.code, o.stderr)
		return o.stdout
	}
	require.Contains(t, plan("paper", "3"), "\n          3 seeds cannot decide, however large the difference: plan at least 5 (--seeds 5)\n")
	require.Contains(t, plan("adaptive", "5"), " 5 seeds cannot decide, however large the difference: plan at least 6 (--seeds 6)\n")
	require.NotContains(t, plan("paper", "5"), "cannot decide")
	require.NotContains(t, plan("control", "5"), "cannot decide", "three comparisons are planned")
}

// The power is that of the study's planned comparisons, with the variation of their own arms.
func TestAPlanSaysHowManySeedsDecideADifference(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	o := swarm(t, home, "import", "../../docs/study/control.db.gz")
	require.Zero(t, o.code, o.stderr)
	o = swarm(t, home, "plan", "--study", "control", "--difference", "0.006,0.02")
	require.Zero(t, o.code, o.stderr)
	require.Regexp(t, `\n +2loc6ext against 2loc0ext +11 \(2\d %\) +5 \(100 %\)\n +4loc4ext against 4loc0ext +7 \(5\d %\) +5 \(100 %\)\n`, o.stdout)
	require.Contains(t, o.stdout, "at 0.05 shared by 3 planned comparisons")
	require.Contains(t, o.stdout, "* of its own runs: 2loc0ext 0.0035 (4), 2loc6ext")
	require.NotContains(t, o.stdout, " --difference")
	o = swarm(t, home, "plan", "--study", "own-data")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "* pooled over other experiments, which may vary more or less: 4loc12ext 0.0083 (24)\n")
	require.Contains(t, o.stdout, "* of like runs of other studies: 4loc0ext 0.0018 (4), 4loc4ext 0.019 (4), 8loc0ext 0.0039 (4)\n")
	o = swarm(t, home, "plan", "--study", "control", "--difference", "0")
	require.Equal(t, fail.ExitUsage, o.code, o.stderr)
	o = swarm(t, home, "plan", "--difference", "0.01")
	require.Equal(t, fail.ExitUsage, o.code, o.stderr)
	require.Contains(t, o.stderr, "--difference needs --study\nTry: swarm plan --study paper --difference 0.02")
}
