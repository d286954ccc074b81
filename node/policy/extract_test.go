package policy_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/policy"
)

func TestExtract(t *testing.T) {
	home := t.TempDir()
	dir, err := policy.Extract(home)
	require.NoError(t, err)
	main, protocol := filepath.Join(dir, "engine", "__main__.py"), filepath.Join(dir, "engine", "protocol.py")
	source, err := filepath.Glob("engine/*.py")
	require.NoError(t, err)
	for _, path := range source {
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, path))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), path)
	}
	before, err := os.Stat(main)
	require.NoError(t, err)
	whole, err := os.ReadFile(protocol)
	require.NoError(t, err)

	// Extract again with one file damaged and one lost: it repairs those two and leaves the others.
	require.NoError(t, os.WriteFile(protocol, whole[:100], 0o644))
	require.NoError(t, os.Remove(filepath.Join(dir, "engine", "loss.py")))
	again, err := policy.Extract(home)
	require.NoError(t, err)
	require.Equal(t, dir, again)
	mended, err := os.ReadFile(protocol)
	require.NoError(t, err)
	require.Equal(t, string(whole), string(mended))
	require.FileExists(t, filepath.Join(dir, "engine", "loss.py"))
	after, err := os.Stat(main)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()), "a good file is not written again")

	entries, err := os.ReadDir(filepath.Join(dir, "engine"))
	require.NoError(t, err)
	require.Len(t, entries, len(source), "nothing else is left there")
}

func TestExtractFails(t *testing.T) {
	home := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(home, nil, 0o644))
	_, err := policy.Extract(home)
	require.ErrorContains(t, err, "engine folder")
}
