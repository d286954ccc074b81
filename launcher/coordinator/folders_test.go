package coordinator

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A node's name that leads out of its run's folder creates nothing there, regardless of who chose the name. A link
// in place of the folder is not followed.
func TestNodeFoldersStayInTheRun(t *testing.T) {
	home := t.TempDir()
	dir, outside := filepath.Join(home, "runs", "e-1"), filepath.Join(home, "outside")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.Mkdir(outside, 0o755))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "linked")))
	for _, node := range []string{"../../x", "/x", "..", ".", "", "a/b", "linked"} {
		require.Error(t, nodeFolders(dir, []string{node}), node)
	}
	require.NoError(t, nodeFolders(dir, []string{"node_0", "anna-2_1"}))
	require.NoError(t, nodeFolders(dir, []string{"node_0"}), "again")
	for path, want := range map[string]int{dir: 3, filepath.Dir(dir): 1, outside: 0} {
		entries, err := os.ReadDir(path)
		require.NoError(t, err)
		require.Len(t, entries, want, path)
	}
}
