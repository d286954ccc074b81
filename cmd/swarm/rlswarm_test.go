package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
)

// clearRLSwarm removes rl-swarm's variables from the environment of a test.
func clearRLSwarm(t *testing.T) {
	for _, name := range append(resolve.TellingNames, "SEED", "MODEL_NAME") {
		t.Setenv(name, "")
		require.NoError(t, os.Unsetenv(name))
	}
}

func TestPlanTellsRLSwarmsVariables(t *testing.T) {
	clearRLSwarm(t)
	t.Setenv("SEED", "7")
	t.Setenv("MAX_ROUNDS", "3")
	args := []string{"plan", "--model", "nano", "--device", "cpu", "--nodes", "2"}
	o := inProcess(t, args...)
	require.Equal(t, fail.ExitDone, o.code, o.stderr)
	require.Equal(t, 1, strings.Count(o.stderr, "Used from the environment: SEED=7, MAX_ROUNDS=3 (rl-swarm's names;"), o.stderr)
	o = inProcess(t, append(args, "--ignore-rl-swarm-env")...)
	require.Equal(t, fail.ExitDone, o.code, o.stderr)
	require.NotContains(t, o.stderr, "Used from the environment")
}

func TestJoinReadsRLSwarmsVariables(t *testing.T) {
	environ := map[string]string{"EXPERIMENT_NAME": "e", "NODE_ID": "node_1"}
	for _, tt := range []struct{ args, experiment, node, taken string }{
		{"", "e", "node_1", "EXPERIMENT_NAME NODE_ID"},
		{"--experiment f", "f", "node_1", "NODE_ID"},
		{"--node-id me", "e", "me", "EXPERIMENT_NAME"},
		{"--ignore-rl-swarm-env", "", "", ""},
	} {
		var o joinOptions
		f := pflag.NewFlagSet("join", pflag.ContinueOnError)
		addJoinFlags(f, &o.plan)
		f.StringVar(&o.Experiment, "experiment", "", "")
		f.StringVar(&o.NodeID, "node-id", "", "")
		require.NoError(t, f.Parse(strings.Fields(tt.args)))
		o.IgnoreRLSwarm = o.plan.Config.IgnoreRLSwarm
		o.ReadRLSwarm(f.Changed, func(name string) string { return environ[name] })
		require.Equal(t, [3]string{tt.experiment, tt.node, tt.taken}, [3]string{o.Experiment, o.NodeID, strings.Join(o.FromRLSwarm, " ")}, tt)
	}
	clearRLSwarm(t)
	t.Setenv("EXPERIMENT_NAME", "e")
	t.Setenv("NODE_ID", "node_1")
	t.Setenv("MAX_ROUNDS", "3") // the coordinator's setting
	t.Setenv("SEED", "3")
	o := inProcess(t, "join", "--shared", t.TempDir(), "--wait", "1s")
	require.Equal(t, fail.ExitFailed, o.code, o.stderr)
	require.Contains(t, o.stderr, "Used from the environment: EXPERIMENT_NAME=e, NODE_ID=node_1 (rl-swarm's names; --ignore-rl-swarm-env ignores them)\n")
}
