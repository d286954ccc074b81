package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// An adaptive run's configuration doesn't say what its rounds did.
func TestAnAdaptiveRunIsNoMeasurement(t *testing.T) {
	t.Parallel()
	fixed := configs.Default()
	adaptive := fixed
	adaptive.Split = configs.SplitBandit
	require.True(t, sameRate(fixed, fixed))
	require.True(t, sameRate(fixed, adaptive))
	require.False(t, sameRate(adaptive, fixed))
}

func TestAPauseIsNoLoading(t *testing.T) {
	t.Parallel()
	run := store.Totals{Run: store.Run{Started: 1000, Attempts: 1}}
	require.InDelta(t, 20, loadingOf(run, store.RoundBand{End: 1030}, 10), 0)
	require.Zero(t, loadingOf(run, store.RoundBand{Round: 1, End: 1030}, 10), "its first round isn't recorded")
	require.Zero(t, loadingOf(run, store.RoundBand{End: 1030}, 40))
	run.Attempts = 2
	require.Zero(t, loadingOf(run, store.RoundBand{End: 90_000}, 10), "it was stopped for a day")
}

func TestAPlanRepeatsItsFlagsForTheSweep(t *testing.T) {
	t.Parallel()
	o := swarm(t, t.TempDir(), "plan", "--study", "paper", "--model", "gpt2", "--gpu-memory", "80GB", "--price", "$2/h", "--seeds", "5",
		"--rounds", "100", "--set", "temperature=0.5", "--set", "num_iterations=2", "--gradient-checkpointing")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, " sweep --study paper --model gpt2 --gpu-memory=80GB --gradient-checkpointing=true '--price=$2/h' "+
		"--rounds=100 --seeds=5 --set=temperature=0.5 --set=num_iterations=2\n")
}
