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
