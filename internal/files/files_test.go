package files

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rooted returns a root with a folder a of 6 bytes, and a file outside the root that must stay untouched.
func rooted(t *testing.T) (root *os.Root, dir, outside string) {
	t.Helper()
	parent := t.TempDir()
	dir, outside = filepath.Join(parent, "runs"), filepath.Join(parent, "outside")
	for path, text := range map[string]string{filepath.Join(dir, "a", "b", "x"): "1234", filepath.Join(dir, "a", "y"): "56", filepath.Join(outside, "z"): "keep"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return root, dir, outside
}

func ample() *Budget { return &Budget{Entries: 100, Until: time.Now().Add(time.Hour)} }

func TestSize(t *testing.T) {
	root, dir, outside := rooted(t)
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "a", "link")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "linked")))
	for name, want := range map[string]int64{"a": 6, "linked": 0, "none": 0} {
		bytes, whole, err := Size(root, name, ample())
		require.NoError(t, err, name)
		require.True(t, whole, name)
		require.Equal(t, want, bytes, name)
	}
	_, _, err := Size(root, "../outside", ample())
	require.Error(t, err)
	_, whole, err := Size(root, "a", &Budget{Entries: 3, Until: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.False(t, whole, "more entries than the budget has")
	_, whole, err = Size(root, "a", &Budget{Entries: 100})
	require.NoError(t, err)
	require.False(t, whole, "no time left")
}

func TestRemoveStaysWithinItsRoot(t *testing.T) {
	root, dir, outside := rooted(t)
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "a", "b", "link")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "linked")))
	for _, name := range []string{"", ".", "..", "../outside", "a/b", "/etc", `a\b`} {
		require.Error(t, Remove(root, name), name)
	}
	require.NoError(t, Remove(root, "none"))
	require.FileExists(t, filepath.Join(dir, "a", "b", "x"))
	for _, name := range []string{"a", "linked"} {
		require.NoError(t, Remove(root, name))
		require.NoFileExists(t, filepath.Join(dir, name))
	}
	require.FileExists(t, filepath.Join(outside, "z"))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWhatAnInterruptedRemovalLeftIsRemoved(t *testing.T) {
	root, dir, _ := rooted(t)
	require.NoError(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, asidePrefix+"7-1")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "other"), 0o755))
	aside, err := Aside(root)
	require.NoError(t, err)
	require.Equal(t, []string{asidePrefix + "7-1"}, aside)
	require.NoError(t, EmptyAside(root))
	require.NoDirExists(t, filepath.Join(dir, asidePrefix+"7-1"))
	require.DirExists(t, filepath.Join(dir, "other"))
}
