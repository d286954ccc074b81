package e2e

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Nodes with different models learn from one another. After a kill each resumes with its own model, and verify can
// reproduce the run.
func TestDifferentModelsLearnFromEachOther(t *testing.T) {
	t.Parallel()
	const rounds = 6
	home := t.TempDir()
	both := tinyModel() + "=1,nano=1"
	flags := append([]string{"up", "-o", "json", "--name", "e", "--models", both, "--rounds", "6", "--checkpoint-every", "2",
		"--zero-advantage-filter=false"}, tinyRun()[2:]...) // nano was not trained on these questions: its rewards are mostly equal
	r := startCommand(t, home, flags...)
	r.awaitRound("node_1", 3)
	for _, pid := range processes(home) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	require.Equal(t, 137, r.wait())

	other := swarm(t, home, append(flags, "--models", "nano=1,"+tinyModel()+"=1")...)
	require.Equal(t, 2, other.code, other.stderr)
	require.Contains(t, other.stderr, "run e-1 cannot continue with another configuration:\n  model ")

	r = startCommand(t, home, flags...)
	require.Equal(t, 0, r.wait(), r.stderr)
	require.Equal(t, "e-1", r.summary.Run)
	requireWhole(t, home, "e-1", 2, rounds)

	s := status(t, home)
	require.Equal(t, both, s.Model)
	require.Equal(t, []string{tinyModel(), "nano"}, []string{s.Nodes[0].Model, s.Nodes[1].Model})
	reader, err := store.OpenReader(t.Context(), filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	defer reader.Close()
	for _, n := range s.Nodes {
		made, err := reader.NodeRounds(t.Context(), "e-1", n.ID, 0, rounds)
		require.NoError(t, err)
		external := 0
		for _, round := range made {
			external += round.TrainedExternal
		}
		require.Positive(t, external, n.ID)
	}

	again := swarm(t, home, "verify", "e", "-o", "json")
	require.Equal(t, 0, again.code, again.stderr+again.stdout)
	v := verifyDocument(t, again)
	require.True(t, v.Verified && v.Exact)
	require.Equal(t, 2*rounds, v.Rounds)
	for _, n := range v.Nodes {
		require.Equal(t, n.Checkpoints, n.EqualHashes)
		require.Positive(t, n.Checkpoints)
	}
}
