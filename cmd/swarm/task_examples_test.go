package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A run with examples learns from its peers' rollouts, goes on after a kill to what verify repeats bit for bit, and
// does not go on with another number of examples. Its evaluations are another set than those without.
func TestExamples(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	up := func(name, rounds, examples string, more ...string) []string {
		return append([]string{
			"up", "4loc4ext", "--name", name, "--model", "nano", "--device", "cpu", "--nodes", "2", "--rounds", rounds, "--tasks-examples", examples,
			"--nodes-tasks", "basic_arithmetic+fraction_simplification", "--num-train-samples", "2", "--num-transplant-trees", "2",
			"--num-generations", "8", "--max-completion-length", "24", "--set", "eval_questions=9", "--set", "checkpoint_every=2",
		}, more...)
	}
	killAt(t, home, 2, up("shown", "4", "1", "-o", "json")...)
	done := swarm(t, home, up("shown", "4", "1")...)
	require.Equal(t, 0, done.code, done.stderr)
	require.NotContains(t, swarm(t, home, "curve", "shown", "-o", "json").stdout, `"mean":[0,0,0,0]`, "nothing is rewarded")
	verified := swarm(t, home, "verify", "shown-1", "--generate")
	require.Equal(t, 0, verified.code, verified.stderr+verified.stdout)

	prompted := promptedOf(t, swarm(t, home, "model", "prompt", "shown", "--task", "basic_arithmetic", "-n", "1", "-o", "json"))
	require.Greater(t, prompted.PromptTokens, len(prompted.Question)+len("<answer>1</answer>"), "an example precedes the question")
	refused := swarm(t, home, up("shown", "4", "2")...)
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.stderr, "tasks.examples 1 → 2")
	refused = swarm(t, home, up("shown", "4", "9")...)
	require.Equal(t, 2, refused.code)
	require.Equal(t, "Error: bad tasks.examples \"9\" (--tasks-examples): allowed: a whole number from 0 to 8\n", refused.stderr)

	plain := swarm(t, home, up("plain", "1", "0")...)
	require.Equal(t, 0, plain.code, plain.stderr)
	set := func(name string) string {
		return evaluationsOf(t, swarm(t, home, "eval", name, "-o", "json")).Rows[0].Set
	}
	require.NotEqual(t, set("plain"), set("shown"))
}
