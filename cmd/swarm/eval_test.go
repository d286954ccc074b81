package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
)

func evaluationsOf(t *testing.T, o outcome) evaluation.Document {
	t.Helper()
	require.Equal(t, 0, o.code, o.stderr)
	document := fields(t, decode(t, o.stdout), map[string]string{
		"run": "string", "experiment": "string", "config": "string", "seed": "number", "rows": "array", "tasks": "array",
	})
	for _, row := range document["rows"].([]any) {
		fields(t, row, map[string]string{
			"round": "number", "set": "string", "nodes": "number", "questions": "number", "generations": "number", "reward": "number",
			"reward_low": "number", "reward_high": "number", "pass": "array", "format_rate": "number?", "completions_mean_length": "number?",
		})
	}
	var e evaluation.Document
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &e))
	return e
}

// The recorded evaluation, a new evaluation of the checkpoint, and the evaluation of the saved model are equal to the
// last bit.
func TestEval(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	evaluated := []string{"--set", "eval_questions=8", "--set", "eval_generations=4", "--set", "eval_every=2", "--set", "checkpoint_every=2"}
	up := swarm(t, home, append([]string{"up", "--config", "4loc4ext", "--rounds", "3"}, tinyRun(evaluated...)...)...)
	require.Equal(t, 0, up.code, up.stderr)
	require.Empty(t, up.stderr)

	recorded := evaluationsOf(t, swarm(t, home, "eval", "4loc4ext", "-o", "json"))
	require.Equal(t, "4loc4ext-1", recorded.Run)
	require.Len(t, recorded.Rows, 3)
	for i, round := range []int{0, 2, 3} {
		row := recorded.Rows[i]
		require.Equal(t, round, row.Round)
		require.Equal(t, [3]int{2, 8, 4}, [3]int{row.Nodes, row.Questions, row.Generations})
		require.Equal(t, recorded.Rows[0].Set, row.Set)
		require.Len(t, row.Pass, 3)
	}
	last := recorded.Rows[2]
	require.Positive(t, last.Reward, "nothing is compared")
	require.True(t, strings.HasSuffix(last.Set, event.OwnDraws), "each node has its own random numbers")

	text := swarm(t, home, "eval", "--k", "1,4")
	require.Equal(t, 0, text.code, text.stderr)
	require.Regexp(t, `rounds +nodes +reward +worst node +best node +pass@1 +pass@4 +in tags +tokens +set`, text.stdout)
	require.Contains(t, text.stdout, "Set "+last.Set+": 8 questions, 4 completions of each.")

	sum := 0.0
	for _, node := range []string{"node_0", "1"} {
		again := evaluationsOf(t, swarm(t, home, "eval", "4loc4ext", "--node", node, "-o", "json"))
		require.Len(t, again.Rows, 1)
		require.Equal(t, 3, again.Rows[0].Round)
		require.Equal(t, last.Set, again.Rows[0].Set)
		require.Contains(t, []float64{last.RewardLow, last.RewardHigh}, again.Rows[0].Reward)
		sum += again.Rows[0].Reward
	}
	require.InDelta(t, last.Reward, sum/2, 1e-12)
	first := evaluationsOf(t, swarm(t, home, "eval", "--node", "node_0", "--round", "0", "-o", "json"))
	require.Contains(t, []float64{recorded.Rows[0].RewardLow, recorded.Rows[0].RewardHigh}, first.Rows[0].Reward)
	wide := evaluationsOf(t, swarm(t, home, "eval", "--node", "node_0", "--round", "2", "--questions", "6", "--k", "1,6", "-o", "json"))
	require.Equal(t, [3]int{2, 6, 6}, [3]int{wide.Rows[0].Round, wide.Rows[0].Questions, wide.Rows[0].Generations})
	require.Len(t, wide.Rows[0].Pass, 2)

	saved := filepath.Join(home, "saved")
	require.Equal(t, 0, swarm(t, home, "model", "save", "4loc4ext", "node_0", saved).code)
	// Only the run's flags for tasks and sampling, not those for model, device and nodes.
	flags := append([]string{"eval", saved, "--config", "4loc4ext", "-o", "json"}, tinyRun(evaluated...)[8:]...)
	flags = append(flags, "--set", "tasks.file="+items(), "--set", "tasks.system_prompt=none")
	folder := evaluationsOf(t, swarm(t, home, flags...))
	require.Equal(t, last.Set, folder.Rows[0].Set)
	require.Contains(t, []float64{last.RewardLow, last.RewardHigh}, folder.Rows[0].Reward)

	testPrompt(t, home, saved)
	verified := swarm(t, home, "verify", "4loc4ext")
	require.Equal(t, 0, verified.code, verified.stderr+verified.stdout)
	testEvalRefuses(t, home)
}

func testEvalRefuses(t *testing.T, home string) {
	cases := []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--round", "3"}, 2, "--round selects a node's checkpoint and needs --node\nTry: --node node_0"},
		{[]string{"--node", "node_9"}, 2, `run 4loc4ext-1 has no node "node_9" here`},
		{[]string{"--node", "node_0", "--round", "1"}, 2, "has no checkpoint after 1 round. It has: 2, 3\nTry: --round with one of them"},
		{[]string{"--k", "0"}, 2, `bad k "0": allowed: whole numbers from 1 to 256`},
		{[]string{"--k", "8"}, 2, "pass@8 needs that many completions per question: run 4loc4ext-1 was evaluated with 4\nTry: --node node_0"},
		{[]string{"--node", "node_0", "--k", "8", "--generations", "4"}, 2, `bad k "8": allowed: whole numbers from 1 to --generations 4`},
		{[]string{"--questions", "5"}, 2, "--questions or --generations applies only to a new evaluation"},
		{[]string{"--node", "node_0", "--config", "8loc0ext"}, 2, "--config and --node exclude each other"},
		{[]string{"--node", "node_0", "--questions", "0"}, 2, `bad questions "0": allowed: a whole number from 1`},
		{[]string{"--node", "node_0", "--generations", "0"}, 2, `bad generations "0": allowed: a whole number from 1`},
		{[]string{"./nothing", "--node", "node_0"}, 2, "./nothing is a folder, but --node needs a run"},
		{[]string{"nothing"}, 2, `no run or experiment "nothing" is recorded`},
		{[]string{"./nothing"}, 2, "no such file or directory\nTry: a folder with the config.json"},
		{[]string{"--node", "node_0", "--device", "tpu"}, 2, `bad device "tpu"`},
		{[]string{"--node", "node_0", "--device", "cuda"}, 3, "does not fit: no usable GPU"},
	}
	for _, k := range cases {
		got := swarm(t, home, append([]string{"eval"}, k.args...)...)
		require.Equal(t, k.code, got.code, "%v: %s", k.args, got.stderr)
		require.Contains(t, got.stderr, k.want)
		require.Empty(t, got.stdout)
	}
}
