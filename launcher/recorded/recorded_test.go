package recorded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Nodes have names or numbers and are listed in order. For an unknown node, the error lists the existing ones.
func TestNodesOfARun(t *testing.T) {
	home := layout.Home(t.TempDir())
	run := store.Run{Run: "e-1", Experiment: "e"}
	_, err := NodeFolders(home, run)
	require.EqualError(t, err, "the files of run e-1 were removed: "+home.Run("e-1")+" is missing")
	require.Equal(t, "swarm up --fresh for a new run", fail.Remedy(err))
	for _, name := range []string{"node_10", "node_2", "node_0", "exchange"} {
		require.NoError(t, os.MkdirAll(home.Path("runs", "e-1", name), 0o755))
	}
	require.NoError(t, os.WriteFile(home.Path("runs", "e-1", "node_3"), nil, 0o644))
	known, err := NodeFolders(home, run)
	require.NoError(t, err)
	require.Equal(t, []string{"node_0", "node_2", "node_10"}, known)
	for _, name := range []string{"10", "node_10"} {
		found, err := NodeName(home, run, name)
		require.NoError(t, err)
		require.Equal(t, "node_10", found)
	}
	_, err = NodeName(home, run, "3")
	require.EqualError(t, err, `run e-1 has no node "node_3" here: it has node_0, node_2, node_10`)
}

// Only a run that ended in order can be verified. Otherwise the database may lack what the journals have.
func TestEnded(t *testing.T) {
	for _, state := range []string{store.RunDone, store.RunStopped, store.RunFailed} {
		require.NoError(t, Ended(store.Snapshot{Run: store.Run{Run: "e-1", State: state}}))
	}
	err := Ended(store.Snapshot{Run: store.Run{Run: "e-1", State: store.RunRunning}})
	require.EqualError(t, err, "run e-1 was interrupted")
	require.NotEmpty(t, fail.Remedy(err))
}

func TestASavedModelTakesAnEmptyFolder(t *testing.T) {
	dir := t.TempDir()
	got, err := EmptyFolder(dir)
	require.NoError(t, err)
	require.Equal(t, dir, got)
	got, err = EmptyFolder(filepath.Join(dir, "new"))
	require.NoError(t, err)
	require.NoDirExists(t, got)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o644))
	_, err = EmptyFolder(dir)
	require.EqualError(t, err, "folder "+dir+" is not empty")
	require.Equal(t, "another folder", fail.Remedy(err))
}

// Nodes and rounds belong to runs. For a folder, Find rejects them before it opens anything.
func TestAFolderHasNoNodes(t *testing.T) {
	node, round := "0", 3
	for want, w := range map[string]Wanted{"--node": {Node: &node, Round: &round}, "--round": {Round: &round}} {
		_, _, err := w.Find(t.Context(), plan.Host{}, nil, "./folder")
		require.EqualError(t, err, "./folder is a folder, but "+want+" needs a run")
		require.Equal(t, "the same command without "+want, fail.Remedy(err))
	}
}
