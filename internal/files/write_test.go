package files

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWriteReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, text := range []string{"one", "", "three"} {
		require.NoError(t, Write(path, []byte(text)))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "a temporary file is left")
}

func TestFailureLeavesTheOldAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	require.NoError(t, os.Mkdir(path, 0o755)) // a folder can't be replaced by a file
	require.Error(t, Write(path, []byte("x")))
	require.DirExists(t, path)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Error(t, Write(filepath.Join(dir, "missing", "a"), nil))
}

func TestEnsureLeavesEqualContentAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, Ensure(path, []byte("x")))
	old := time.Unix(1, 0)
	require.NoError(t, os.Chtimes(path, old, old))
	require.NoError(t, Ensure(path, []byte("x")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, old, info.ModTime())
	require.NoError(t, Ensure(path, []byte("y")))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "y", string(got))
}

func TestReplaceLeavesNoTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	path, temporary := filepath.Join(dir, "a"), filepath.Join(dir, "a.tmp")
	for _, text := range []string{"one", "two"} {
		require.NoError(t, Replace(path, temporary, []byte(text), 0o600))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		require.NoFileExists(t, temporary)
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o755))
	require.Error(t, Replace(path, temporary, nil, 0o600))
	require.NoFileExists(t, temporary)
}
