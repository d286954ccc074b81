package files

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALockKeepsOthersOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		t.Cleanup(func() { file.Close() })
		return file
	}
	a, b := open(), open()
	require.NoError(t, LockShared(a))
	require.NoError(t, LockShared(b))
	require.ErrorIs(t, Lock(a), ErrLocked)
	require.NoError(t, Unlock(b))
	require.NoError(t, Lock(a))
	require.ErrorIs(t, LockShared(b), ErrLocked)
	require.ErrorIs(t, LockWithin(b, 20*time.Millisecond), ErrLocked)
	time.AfterFunc(20*time.Millisecond, func() { a.Close() })
	require.NoError(t, LockWithin(b, 10*time.Second))

	folder, err := os.Open(filepath.Dir(path))
	require.NoError(t, err)
	defer folder.Close()
	require.NoError(t, Lock(folder))
}

func TestAClaimNamesItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks", "x.lock")
	require.NoError(t, LookClaim(path, 0))
	require.NoFileExists(t, path)
	claim, err := TakeClaim(path)
	require.NoError(t, err)
	var other *HeldError
	_, err = TakeClaim(path)
	require.ErrorAs(t, err, &other)
	require.Equal(t, HeldError{path, strconv.Itoa(os.Getpid())}, *other)
	require.NoError(t, os.Truncate(path, 0))
	require.ErrorAs(t, LookClaim(path, 0), &other)
	require.Equal(t, "unknown", other.Holder)
	claim.Release()
	require.NoError(t, LookClaim(path, 0))
	claim, err = TakeClaim(path)
	require.NoError(t, err)
	claim.Release()
	require.FileExists(t, path)
}
