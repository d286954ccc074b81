package swarmtest

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Mount mounts a file system on a new folder for the duration of the test, or skips the test.
func Mount(t *testing.T, flags uintptr, options string) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSYS) {
		t.Skipf("mounting is not permitted here: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}
