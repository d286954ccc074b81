package export

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestADatabaseReplacesOnlyAnExport(t *testing.T) {
	reader, runs := database(t, 2, 2, 3)
	dir := t.TempDir()
	for _, name := range []string{"small.db", "small.db.gz"} {
		path := filepath.Join(dir, name)
		files, err := Database(t.Context(), reader, path, runs[:1], false)
		require.NoError(t, err)
		first, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, name, files[0].Path)
		require.Equal(t, int64(len(first)), files[0].Bytes)
		require.Positive(t, files[0].Rows)
		_, err = Database(t.Context(), reader, path, runs, false)
		require.NoError(t, err, "an export is replaced")
		_, err = Database(t.Context(), reader, path, runs[:1], false)
		require.NoError(t, err)
		again, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, first, again, "equal runs make equal bytes")
		opened, err := store.OpenFile(t.Context(), path)
		require.NoError(t, err)
		totals, err := opened.Runs(t.Context(), store.Filter{})
		require.NoError(t, err)
		require.Len(t, totals, 1)
		require.NoError(t, opened.Close())
	}
	precious := filepath.Join(dir, "precious.db")
	require.NoError(t, os.WriteFile(precious, []byte("precious"), 0o600))
	_, err := Database(t.Context(), reader, precious, runs, false)
	var foreign *ForeignError
	require.ErrorAs(t, err, &foreign)
	text, err := os.ReadFile(precious)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))
	_, err = Database(t.Context(), reader, precious, runs, true)
	require.NoError(t, err)
	require.True(t, store.IsExtract(precious))
	_, err = Database(t.Context(), reader, dir, runs, true)
	require.ErrorContains(t, err, "is not a file")
	require.Equal(t, []string{"precious.db", "small.db", "small.db.gz"}, names(t, dir), "nothing else is left")
}

func TestADatabaseIsNeverReplacedByItsOwnExport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarm.db")
	s, err := store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	run := store.Run{Run: "x-1", Experiment: "x", Started: 1, NodeIDs: []string{"node_0"}}
	require.NoError(t, s.StartRun(t.Context(), run))
	require.NoError(t, s.Close())
	reader, err := store.OpenReader(t.Context(), path)
	require.NoError(t, err)
	defer reader.Close()
	link := filepath.Join(filepath.Dir(path), "link.db")
	require.NoError(t, os.Link(path, link))
	for _, out := range []string{path, link} {
		_, err = Database(t.Context(), reader, out, []store.Run{run}, true)
		var foreign *ForeignError
		require.ErrorAs(t, err, &foreign)
	}
}
