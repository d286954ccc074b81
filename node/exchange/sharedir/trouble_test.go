package sharedir

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/hermetic"
)

// mountedFolder returns an experiment's folder on its own file system.
func mountedFolder(t *testing.T, options string) string {
	t.Helper()
	hermetic.Root(t)
	shared := t.TempDir()
	if err := syscall.Mount("tmpfs", shared, "tmpfs", 0, options); err != nil {
		t.Skipf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(shared, syscall.MNT_DETACH) })
	dir, err := Folder(shared, "exp")
	require.NoError(t, err)
	require.NoError(t, Announce(dir, testWelcome()))
	return dir
}

// A full folder delays a batch until there is space again. It is reported once and leaves no incomplete file that
// counts.
func TestFullFolder(t *testing.T) {
	dir := mountedFolder(t, "size=256k")
	var log logLines
	a := open(t, Options{Dir: dir, Run: testRun, Node: "a", Logger: log.logger()})
	share(t, a, 0)
	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err = a.Publish(ctx, batchOf("a", 1, ""))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "is full")
	require.ErrorContains(t, err, "Try: free space")
	done := make(chan error, 1)
	go func() { done <- a.Publish(t.Context(), batchOf("a", 1, "")) }()
	b, err := Open(Options{Dir: dir, Run: testRun, Node: "b"})
	require.ErrorContains(t, err, "is full")
	require.Nil(t, b)
	require.NoError(t, os.Remove(ballast))
	require.NoError(t, <-done)
	require.NotNil(t, lookNow(t, open(t, Options{Dir: dir, Run: testRun, Node: "b"}), 1, "a"))
	require.Equal(t, 1, log.count("is full"))
	require.Equal(t, 1, log.count("the shared folder is back"))
}

// A folder without write access fails with a one-line error.
func TestReadOnlyFolder(t *testing.T) {
	dir := mountedFolder(t, "size=256k")
	a := open(t, Options{Dir: dir, Run: testRun, Node: "a"})
	shared := filepath.Dir(filepath.Dir(dir))
	require.NoError(t, syscall.Mount("", shared, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	_, err := Open(Options{Dir: dir, Run: testRun, Node: "b"})
	require.ErrorContains(t, err, "is not writable")
	require.ErrorContains(t, err, "Try: ask its owner for write access")
	require.NotContains(t, err.Error(), "\n")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, a.Publish(ctx, batchOf("a", 0, "")), "is not writable")
	require.NoError(t, syscall.Mount("", shared, "", syscall.MS_REMOUNT, ""))
	share(t, a, 0)
}

// If the folder disappears, calls wait. They never create it on the disk below, and continue when it is back.
func TestFolderAwayAndBack(t *testing.T) {
	dir := newFolder(t)
	a, b := open(t, Options{Dir: dir, Run: testRun, Node: "a"}), open(t, Options{Dir: dir, Run: testRun, Node: "b"})
	share(t, a, 0)
	experiments := filepath.Dir(dir)
	away := experiments + ".away"
	require.NoError(t, os.Rename(experiments, away))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := a.Publish(ctx, batchOf("a", 1, ""))
	require.ErrorContains(t, err, "is missing")
	require.NoDirExists(t, experiments)
	done := make(chan error, 2)
	go func() { done <- a.Publish(t.Context(), batchOf("a", 1, "")) }()
	go func() { gatherAll(t, b, 1, "a"); done <- nil }()
	require.NoError(t, sleep(t.Context(), 50*time.Millisecond)) // both calls are in progress; the test holds without this
	require.NoError(t, os.Rename(away, experiments))
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.False(t, strings.Contains(lookNow(t, b, 0, "a").Rejected, "x"))
}
