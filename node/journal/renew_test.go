package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// failing makes the journal's n-th sync from this call on fail once. Like the kernel, it discards the pages that could
// not be written.
func failing(j *Journal, n int) (failed *os.FileInfo) {
	var info os.FileInfo
	j.sync = func(file *os.File) error {
		if n--; n != 0 {
			return file.Sync()
		}
		info, _ = file.Stat()
		return errors.New("input/output error")
	}
	return &info
}

// requireElsewhere checks that none of the files with a failed sync contains the round.
func requireElsewhere(t *testing.T, dir string, failed os.FileInfo, round int) {
	t.Helper()
	list, err := segments(dir)
	require.NoError(t, err)
	info, err := os.Stat(list[holder(list, round)].path)
	require.NoError(t, err)
	require.False(t, os.SameFile(failed, info), "round %d is in the file that could not be synced", round)
}

func TestAfterAFailedSyncTheJournalGoesOnInANewFile(t *testing.T) {
	for name, broken := range map[string]int{"its segment's first round": 10, "a later one": 12} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, broken, 10)
			j := resumed(t, dir, broken)
			if broken%10 == 0 {
				require.NoError(t, j.Rotate(broken))
			}
			require.NoError(t, j.Generated(broken, generated(broken, 0)))
			failed := failing(j, 1)
			require.Error(t, j.Trained(broken, trained(broken, 0)))
			require.NoError(t, j.Trained(broken, trained(broken, 0)), "the next call may succeed")
			requireElsewhere(t, dir, *failed, broken)
			require.NoError(t, j.Done(broken, done(broken, 0)))
			write(t, j, broken+1, 0)
			require.NoError(t, j.Close())
			requireElsewhere(t, dir, *failed, broken+1)
			for range 2 { // the same process, then a process that resumed the journal
				list, err := read(dir, 0)
				require.NoError(t, err)
				require.Len(t, list, broken+2)
				for i, r := range list {
					require.Equal(t, whole(i, 0), r)
				}
				require.NoError(t, resumed(t, dir, broken+2).Close())
			}
		})
	}
}

// A node that only generates syncs only at a new segment. The journal carries over all its rounds since the last one.
func TestAFailedSyncAtANewSegment(t *testing.T) {
	dir := t.TempDir()
	j := resumed(t, dir, 0)
	for round := range 3 {
		require.NoError(t, j.Generated(round, generated(round, 0)))
		require.NoError(t, j.Done(round, done(round, 0)))
	}
	failed := failing(j, 1)
	require.Error(t, j.Rotate(3))
	require.NoError(t, j.Rotate(3))
	for round := range 3 {
		requireElsewhere(t, dir, *failed, round)
	}
	require.NoError(t, j.Generated(3, generated(3, 0)))
	require.NoError(t, j.Close())
	list, err := read(dir, 0)
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.Len(t, logs(t, dir), 2)
}

// A disk that stays broken gives an error each time, and costs nothing that was synced.
func TestSyncsThatGoOnFailing(t *testing.T) {
	dir := written(t, 3, 10)
	j := resumed(t, dir, 3)
	require.NoError(t, j.Generated(3, generated(3, 0)))
	j.sync = func(*os.File) error { return errors.New("input/output error") }
	for range 3 {
		require.Error(t, j.Trained(3, trained(3, 0)))
	}
	j.sync = (*os.File).Sync
	require.NoError(t, j.Trained(3, trained(3, 0)))
	require.NoError(t, j.Close())
	list, err := read(dir, 0)
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.Equal(t, whole(2, 0), list[2])
	require.NotNil(t, list[3].Generated)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "no temporary file is left")
}

func TestADamagedSegmentIsSetAsideWhole(t *testing.T) {
	for name, harm := range map[string]struct {
		at   func(size int) int // the damaged byte
		kept int                // rounds that can still be read
	}{
		"its middle": {func(size int) int { return size / 2 }, 2},
		"its header": {func(int) int { return 3 }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, 5, 10)
			path := filepath.Join(dir, segmentName(0))
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			data[harm.at(len(data))] ^= 0xff
			require.NoError(t, os.WriteFile(path, data, 0o644))
			before, err := read(dir, 0)
			require.ErrorIs(t, err, ErrDamaged)
			require.GreaterOrEqual(t, len(before), harm.kept)
			next := len(before)
			if next > 0 && before[next-1].Trained == nil {
				next--
			}
			j := resumed(t, dir, next)
			write(t, j, next, 1)
			require.NoError(t, j.Close())
			list, err := read(dir, 0)
			require.NoError(t, err)
			require.Len(t, list, next+1)
			aside, err := os.ReadFile(path + asideSuffix)
			require.NoError(t, err)
			require.Equal(t, data, aside, "what is left of the lost rounds can be looked at")
		})
	}
}
