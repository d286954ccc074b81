package powercut

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Serve()
	os.Exit(m.Run())
}

// left returns what survives a cut: each file's content by its path.
func left(t *testing.T, log Log, n int, fate Fate) map[string]string {
	t.Helper()
	dir, all := t.TempDir(), map[string]string{}
	require.NoError(t, log.Cut(n, fate, dir))
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[rel] = string(data)
		return err
	}))
	return all
}

// step requires that err is nil and returns the number of changes so far.
func step(t *testing.T, f *FS, err error) int {
	t.Helper()
	require.NoError(t, err)
	return f.Now(t)
}

func syncDir(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

func TestWhatWasNotSyncedIsForgotten(t *testing.T) {
	f := Mount(t)
	path := func(name string) string { return filepath.Join(f.Dir, name) }
	require.NoError(t, os.Mkdir(path("d"), 0o755))
	file, err := os.Create(path("d/a"))
	require.NoError(t, err)
	_, err = file.WriteString("one")
	wrote := step(t, f, err)
	synced := step(t, f, file.Sync())
	named := step(t, f, syncDir(path("d")))
	rooted := step(t, f, syncDir(f.Dir))
	_, err = file.WriteString("two")
	longer := step(t, f, err)
	require.NoError(t, file.Close())
	renamed := step(t, f, os.Rename(path("d/a"), path("d/b")))
	moved := step(t, f, syncDir(path("d")))
	gone := step(t, f, os.Remove(path("d/b")))
	log := f.Log(t)
	none, one := map[string]string{}, map[string]string{"d/a": "one"}
	for n, want := range map[int]map[string]string{wrote: none, synced: none, named: none, rooted: one, longer: one, renamed: one,
		moved: {"d/b": "one"}, gone: {"d/b": "one"}} {
		require.Equal(t, want, left(t, log, n, Fate{}), "after %d changes", n)
	}
	require.Equal(t, one, left(t, log, synced, Fate{Journaled: true}), "a journal takes the names with it")

	seen := map[string]bool{}
	for seed := range uint64(200) {
		for path, text := range left(t, log, renamed, Fate{Random: rand.New(rand.NewPCG(seed, 0))}) {
			seen[path+" "+text] = true
		}
	}
	for _, want := range []string{"d/a one", "d/b one", "d/a onetwo", "d/b onet", "d/a one\x00\x00\x00"} {
		require.True(t, seen[want], "%q is among what can be left: %v", want, seen)
	}
}

func TestAFailedSyncForgets(t *testing.T) {
	f := Mount(t)
	file, err := os.Create(filepath.Join(f.Dir, "a"))
	require.NoError(t, err)
	_, err = file.WriteString("lost")
	require.NoError(t, err)
	require.NoError(t, syncDir(f.Dir))
	f.FailSyncs(t, 1)
	require.Error(t, file.Sync())
	require.NoError(t, file.Sync(), "the kernel has forgotten")
	_, err = file.WriteString("kept")
	require.NoError(t, err)
	require.NoError(t, file.Sync())
	data, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	require.Equal(t, "lostkept", string(data), "what is in memory can be read")
	require.NoError(t, file.Close())
	require.Equal(t, map[string]string{"a": "\x00\x00\x00\x00kept"}, left(t, f.Log(t), f.Now(t), Fate{}))
}

// Files behave as on any other file system while the power is on.
func TestFilesWork(t *testing.T) {
	f := Mount(t)
	path := func(name string) string { return filepath.Join(f.Dir, name) }
	require.NoError(t, os.WriteFile(path("a"), []byte("12345"), 0o600))
	require.NoError(t, os.Truncate(path("a"), 2))
	require.NoError(t, os.Link(path("a"), path("b")))
	require.NoError(t, os.Symlink("a", path("c")))
	require.NoError(t, os.Mkdir(path("d"), 0o700))
	require.NoError(t, os.Rename(path("b"), path("d/b")))
	require.Error(t, os.Remove(path("d")), "it isn't empty")
	require.NoError(t, os.WriteFile(path("a"), []byte("678"), 0o600))
	for name, want := range map[string]string{"a": "678", "c": "678", "d/b": "678"} {
		data, err := os.ReadFile(path(name))
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
	require.NoError(t, os.RemoveAll(path("d")))
	entries, err := os.ReadDir(f.Dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}
