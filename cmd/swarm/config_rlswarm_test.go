package main

import (
	"os"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// clearRLSwarm makes an environment without rl-swarm's variables for a test.
func clearRLSwarm(t *testing.T) {
	for _, name := range append(tellingNames, commonNames...) {
		t.Setenv(name, "")
		require.NoError(t, os.Unsetenv(name))
	}
}

// One line names rl-swarm's variables that took effect, and those that many shells export and that did not.
func TestEnvironmentNote(t *testing.T) {
	const leaves = " (rl-swarm's names; --ignore-rl-swarm-env leaves them out)"
	for _, tt := range []struct{ args, environ, want string }{
		{"", "HOME=/root SWARM_SEED=3", ""},
		{"", "EXPERIMENT_NAME=e SEED=7 MODEL_NAME=gpt2", "Used from the environment: EXPERIMENT_NAME=e, SEED=7, MODEL_NAME=gpt2" + leaves},
		{"", "MAX_ROUNDS=3", "Used from the environment: MAX_ROUNDS=3" + leaves},
		{"--rounds 5", "MAX_ROUNDS=3", ""},
		{"--set rounds=5", "MAX_ROUNDS=3", ""},
		{"", "MAX_ROUNDS=3 SWARM_ROUNDS=4", ""},
		{"--ignore-rl-swarm-env", "MAX_ROUNDS=3 SEED=7", ""},
		{"", "SEED=7", "Not used from the environment: SEED=7 (many shells export it; --seed sets it)"},
		{"", "SEED=7 MODEL_NAME=gpt2", "Not used from the environment: SEED=7, MODEL_NAME=gpt2 (many shells export them; --seed and --model set them)"},
		{"--seed 3", "SEED=7", ""},
		{"", "SEED=7 SWARM_SEED=3", ""},
		{"", "SEED=7 NODE_ID=node_1", "Used from the environment: SEED=7" + leaves},
		{"", "SEED=7 NODE_ID=", "Not used from the environment: SEED=7 (many shells export it; --seed sets it)"},
		{"", "EXPERIMENT_NAME=a\x1bb" + strings.Repeat("c", 99), "Used from the environment: EXPERIMENT_NAME=a?b" + strings.Repeat("c", 57) + "…" + leaves},
	} {
		var f configFlags
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.add(fs)
		require.NoError(t, fs.Parse(strings.Fields(tt.args)))
		require.Equal(t, tt.want, f.environmentNote(strings.Split(tt.environ, " ")), tt)
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
		o.plan.addHost(f)
		f.StringVar(&o.experiment, "experiment", "", "")
		f.StringVar(&o.nodeID, "node-id", "", "")
		require.NoError(t, f.Parse(strings.Fields(tt.args)))
		o.readRLSwarm(f, func(name string) string { return environ[name] })
		require.Equal(t, [3]string{tt.experiment, tt.node, tt.taken}, [3]string{o.experiment, o.nodeID, strings.Join(o.fromRLSwarm, " ")}, tt)
	}
	clearRLSwarm(t)
	t.Setenv("EXPERIMENT_NAME", "e")
	t.Setenv("NODE_ID", "node_1")
	t.Setenv("MAX_ROUNDS", "3") // is the coordinator's
	t.Setenv("SEED", "3")
	o := inProcess(t, "join", "--shared", t.TempDir(), "--wait", "1s")
	require.Equal(t, fail.ExitFailed, o.code, o.stderr)
	require.Contains(t, o.stderr, "Used from the environment: EXPERIMENT_NAME=e, NODE_ID=node_1 (rl-swarm's names; --ignore-rl-swarm-env leaves them out)\n")
}
