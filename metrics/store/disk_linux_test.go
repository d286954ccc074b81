package store

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/hermetic"
)

// TestFullDisk fills a small, real file system. It needs the permission to mount one.
func TestFullDisk(t *testing.T) {
	hermetic.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("no right to mount a file system:", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	var warned warnings
	ballast := filepath.Join(dir, "ballast")
	s := openStore(t, filepath.Join(dir, "swarm.db"), Options{RetryDelay: time.Millisecond, SeenInterval: time.Millisecond, Warn: warned.add})
	require.NoError(t, s.StartRun(t.Context(), aRun()))
	record(t, s, aRound("node_0", 0, 200, 0.5))
	require.Error(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600), "the disk is full now")
	const rounds = 200
	for i := 1; i < rounds; i++ {
		require.NoError(t, s.Record(t.Context(), aRound("node_0", i, float64(200+i), 0.5)))
	}
	require.Eventually(t, func() bool { return s.Err() != nil }, time.Minute, time.Millisecond)
	require.ErrorContains(t, s.Err(), "disk full")
	require.Equal(t, 1, snapshot(t, s, testRun).Nodes[0].RoundsDone, "reading still works")

	require.NoError(t, os.Remove(ballast))
	require.NoError(t, s.Flush(t.Context()))
	require.Equal(t, rounds, snapshot(t, s, testRun).Nodes[0].RoundsDone)
	requireIntact(t, s)
	got := warned.all()
	require.Len(t, got, 2, "told once, and once that it is well again")
	require.ErrorContains(t, got[0], "disk full")
	require.ErrorContains(t, got[1], "nothing is lost")
}

// TestReadOnlyFilesystem needs the permission to mount a file system.
func TestReadOnlyFilesystem(t *testing.T) {
	hermetic.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skip("no right to mount a file system:", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	path := filepath.Join(dir, "home", "swarm.db")
	s := openStore(t, path, Options{})
	require.NoError(t, s.StartRun(t.Context(), aRun()))
	require.NoError(t, s.Close())
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))

	_, openErr := Open(t.Context(), path, Options{})
	_, newErr := Open(t.Context(), filepath.Join(dir, "other", "swarm.db"), Options{})
	_, emptyErr := Open(t.Context(), filepath.Join(dir, "home", "other.db"), Options{})
	_, readErr := OpenReader(t.Context(), path)
	for name, err := range map[string]error{"open": openErr, "open in a new folder": newErr, "open a new file": emptyErr, "read": readErr} {
		var e *Error
		require.ErrorAs(t, err, &e, name)
		require.Contains(t, e.Error(), "its folder is on a read-only file system", name)
		require.NotContains(t, err.Error(), "\n", name)
		require.NotEmpty(t, e.Remedy())
	}
	_, err := OpenReader(t.Context(), filepath.Join(dir, "home", "none.db"))
	require.ErrorIs(t, err, ErrNoDatabase)
}
