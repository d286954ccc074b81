package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A teacher shares rollouts and does not train. Evaluations count the nodes that train, and verify repeats the run.
func TestTeacherSharesAndDoesNotTrain(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	arguments := append([]string{"up", "--config", "4loc4ext", "--rounds", "3", "--nodes-generate-only", "1"},
		tinyRun("--set", "eval_questions=8", "--set", "eval_generations=4", "--set", "eval_every=2", "--set", "checkpoint_every=1")...)
	up := swarm(t, home, arguments...)
	require.Equal(t, 0, up.code, up.stderr)

	var status struct {
		Nodes []struct {
			ID           string `json:"id"`
			GenerateOnly bool   `json:"generate_only"`
			Round        int    `json:"round"`
		} `json:"nodes"`
	}
	shown := swarm(t, home, "status", "-o", "json")
	require.Equal(t, 0, shown.code, shown.stderr)
	require.NoError(t, json.Unmarshal([]byte(shown.stdout), &status))
	require.Len(t, status.Nodes, 2)
	require.True(t, status.Nodes[0].GenerateOnly, shown.stdout)
	require.False(t, status.Nodes[1].GenerateOnly, shown.stdout)

	recorded := evaluationsOf(t, swarm(t, home, "eval", "4loc4ext", "-o", "json"))
	require.Len(t, recorded.Rows, 3)
	for _, row := range recorded.Rows {
		require.Equal(t, 1, row.Nodes, "evaluations count the node that trains, after %d rounds", row.Round)
	}
	weights, err := filepath.Glob(filepath.Join(home, "runs", "*", "node_*", "*.safetensors"))
	require.NoError(t, err)
	for _, path := range weights {
		require.Equal(t, "node_1", filepath.Base(filepath.Dir(path)), "a teacher has nothing to save")
	}
	require.NotEmpty(t, weights)

	verified := swarm(t, home, "verify", "4loc4ext")
	require.Equal(t, 0, verified.code, verified.stdout+verified.stderr)

	none := swarm(t, home, append([]string{"up", "--config", "4loc4ext", "--rounds", "3", "--nodes-generate-only", "2", "--fresh"}, tinyRun()...)...)
	require.Equal(t, 2, none.code, none.stdout)
	require.Contains(t, none.stderr, "no node would train")
}
