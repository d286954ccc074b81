package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPlanRepeatsItsFlagsForTheSweep(t *testing.T) {
	t.Parallel()
	o := swarm(t, t.TempDir(), "plan", "--study", "paper", "--model", "gpt2", "--gpu-memory", "80GB", "--price", "$2/h", "--seeds", "5",
		"--rounds", "100", "--set", "temperature=0.5", "--set", "num_iterations=2", "--gradient-checkpointing")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, " sweep --study paper --model gpt2 --gpu-memory=80GB --gradient-checkpointing=true --price='$2/h' "+
		"--rounds=100 --seeds=5 --set=temperature=0.5 --set=num_iterations=2\n")
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
	require.NotContains(t, plan("control", "5"), "cannot decide", "two comparisons are planned")
}
