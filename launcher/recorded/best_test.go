package recorded

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/best"
)

// A damaged description is not taken for a node without best weights.
func TestDamagedBestWeightsAreNoMissingOnes(t *testing.T) {
	t.Parallel()
	dir, nodes := t.TempDir(), []string{"node_0", "node_1", "node_2"}
	for _, n := range nodes {
		require.NoError(t, os.Mkdir(filepath.Join(dir, n), 0o755))
	}
	_, _, err := bestOf(dir, nodes)
	require.ErrorIs(t, err, best.ErrNone)
	kept := best.Weights{Folder: best.Folder(3)}
	kept.Round = 3
	data, err := json.Marshal(kept)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "node_1", best.File), data, 0o600))
	name, _, err := bestOf(dir, nodes)
	require.NoError(t, err)
	require.Equal(t, "node_1", name)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "node_2", best.File), []byte("{"), 0o600))
	_, _, err = bestOf(dir, nodes)
	require.ErrorContains(t, err, "node_2: best.json is damaged")
	require.NotErrorIs(t, err, best.ErrNone)
	name, _, err = bestOf(dir, nodes[:2])
	require.NoError(t, err)
	require.Equal(t, "node_1", name)
}
