package settings

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/hermetic"
)

const stages = "conf/text_curriculum/{01,02,03,04,05}_stage.yaml"

// negatives returns changes to five files.
func negatives(to string) []Change {
	return []Change{{Place{File: stages, Key: "n_negatives"}, to}}
}

func apply(t testing.TB, dir, state string, changes []Change) *Edition {
	t.Helper()
	e, err := Prepare(dir, changes)
	require.NoError(t, err)
	require.NoError(t, e.Apply(state))
	return e
}

// snapshot returns every file of a folder with its content and mode.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if info.Mode().IsRegular() {
			files[path] = info.Mode().String() + read(t, path)
		}
		return err
	}))
	return files
}

func TestApplyThenUndoGivesEveryByteBack(t *testing.T) {
	dir, state := copyOf(t), t.TempDir()
	require.NoError(t, os.Chmod(filepath.Join(dir, "conf/config.yaml"), 0o640))
	before := snapshot(t, dir)
	changes := append(negatives("8"), one(t, "conf/config.yaml:data_loader.batch_size", "22")...)
	e := apply(t, dir, state, changes)
	require.Len(t, e.Files(), 6)
	for _, f := range e.Files() {
		require.Equal(t, before[filepath.Join(dir, f.Path)][10:], read(t, f.Backup))
	}
	info, err := os.Stat(filepath.Join(dir, "conf/config.yaml"))
	require.NoError(t, err)
	require.Equal(t, "-rw-r-----", info.Mode().String())
	require.Empty(t, entries(state, openName))

	second := apply(t, dir, state, one(t, "conf/config.yaml:data_loader.batch_size", "11"))
	require.Equal(t, "config.yaml.backup.1", filepath.Base(second.Files()[0].Backup), "the first backup is kept")

	restored, err := Undo(state, dir, false)
	require.NoError(t, err)
	require.Equal(t, []Restored{{Path: "conf/config.yaml"}}, restored)
	require.Contains(t, read(t, dir, "conf/config.yaml"), "batch_size: 22 ")
	_, err = Undo(state, dir, false)
	require.NoError(t, err)
	require.Equal(t, before, snapshot(t, dir))
	_, err = Undo(state, dir, false)
	require.ErrorContains(t, err, "nothing to undo in "+dir)
}

func TestUndoOfAFileThatWasEditedSinceIsRefusedUntilForced(t *testing.T) {
	dir, state := copyOf(t), t.TempDir()
	before := snapshot(t, dir)
	apply(t, dir, state, negatives("8"))
	edited := filepath.Join(dir, "conf/text_curriculum/03_stage.yaml")
	write(t, edited, "n_negatives: 8\nmine: 1\n")
	applied := snapshot(t, dir)
	_, err := Undo(state, dir, false)
	require.ErrorContains(t, err, "cannot undo: conf/text_curriculum/03_stage.yaml was edited since. "+
		"Try: --force, which keeps the edited file as a backup; swarm had written n_negatives=8 over 24")
	require.Equal(t, applied, snapshot(t, dir), "none is undone")
	_, err = Undo(state, dir, true)
	require.NoError(t, err)
	now := snapshot(t, dir)
	require.Contains(t, now[edited+".backup.1"], "mine: 1")
	delete(now, edited+".backup.1")
	require.Equal(t, before, now)
}

func TestUndoNeedsTheBackupAsItWas(t *testing.T) {
	dir, state := copyOf(t), t.TempDir()
	e := apply(t, dir, state, negatives("8"))
	write(t, e.Files()[4].Backup, "x: 1\n")
	applied := snapshot(t, dir)
	for _, force := range []bool{false, true} {
		_, err := Undo(state, dir, force)
		require.ErrorContains(t, err, "05_stage.yaml.backup, the backup of conf/text_curriculum/05_stage.yaml, is missing or was changed")
		require.Equal(t, applied, snapshot(t, dir))
	}
}

func TestAFileThatChangedSincePrepareIsNotTouched(t *testing.T) {
	dir, state := copyOf(t), t.TempDir()
	e, err := Prepare(dir, negatives("8"))
	require.NoError(t, err)
	write(t, filepath.Join(dir, "conf/text_curriculum/04_stage.yaml"), "n_negatives: 24\nmine: 1\n")
	before := snapshot(t, dir)
	require.ErrorContains(t, e.Apply(state), "another program has changed conf/text_curriculum/04_stage.yaml in the meantime, "+
		"so nothing was written. Try: the same command again")
	require.Equal(t, before, snapshot(t, dir))
	require.Empty(t, entries(state, openName))
	require.Empty(t, entries(state, undoName))
}

func TestASymbolicLinkStaysOne(t *testing.T) {
	dir, state := copyOf(t), t.TempDir()
	link := filepath.Join(dir, "link.yaml")
	require.NoError(t, os.Symlink("conf/config.yaml", link))
	e := apply(t, dir, state, one(t, "link.yaml:last", "8"))
	require.Equal(t, "config.yaml.backup", filepath.Base(e.Files()[0].Backup))
	target, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, "conf/config.yaml", target)
	require.True(t, strings.HasSuffix(read(t, dir, "conf/config.yaml"), "last: 8"))
}

func TestFilesThatCannotBeReplacedAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	dir := copyOf(t)
	linked := filepath.Join(dir, "conf/text_curriculum/02_stage.yaml")
	require.NoError(t, os.Link(linked, filepath.Join(dir, "second name")))
	_, err := Prepare(dir, negatives("8"))
	require.ErrorContains(t, err, "02_stage.yaml has 2 names (hard links)")
	require.NoError(t, os.Remove(filepath.Join(dir, "second name")))

	require.NoError(t, os.Chmod(linked, 0o444))
	_, err = Prepare(dir, negatives("8"))
	require.ErrorContains(t, err, "conf/text_curriculum/02_stage.yaml is read-only (nothing was changed): chmod u+w conf/text_curriculum/02_stage.yaml")
	_, err = Prepare(dir, negatives("24"))
	require.NoError(t, err, "it has that value already")

	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o644))
	_, err = Prepare(dir, one(t, "pipe.yaml:a", "1"))
	require.ErrorContains(t, err, "this one is a pipe")
}

func TestTheOwnerIsKept(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a file to somebody else")
	}
	dir, state := copyOf(t), t.TempDir()
	path := filepath.Join(dir, "conf/config.yaml")
	require.NoError(t, os.Chown(path, 1234, 4321))
	owner := func(path string) [2]uint32 {
		info, err := os.Stat(path)
		require.NoError(t, err)
		stat := info.Sys().(*syscall.Stat_t)
		return [2]uint32{stat.Uid, stat.Gid}
	}
	e := apply(t, dir, state, one(t, "conf/config.yaml:last", "8"))
	require.Equal(t, [2]uint32{1234, 4321}, owner(path))
	require.Equal(t, [2]uint32{1234, 4321}, owner(e.Files()[0].Backup))
	_, err := Undo(state, dir, false)
	require.NoError(t, err)
	require.Equal(t, [2]uint32{1234, 4321}, owner(path))
}

// TestAFullDiskLeavesEveryFileAsItWas needs a separate file system.
func TestAFullDiskLeavesEveryFileAsItWas(t *testing.T) {
	hermetic.Root(t)
	for _, full := range []string{"the files'", "the state's"} {
		t.Run(full, func(t *testing.T) {
			small := t.TempDir()
			if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=256k"); err != nil {
				t.Skipf("no small file system can be mounted here: %v", err)
			}
			t.Cleanup(func() { require.NoError(t, syscall.Unmount(small, 0)) })
			dir, state := filepath.Join(small, "files"), t.TempDir()
			if full == "the state's" {
				dir, state = filepath.Join(t.TempDir(), "files"), filepath.Join(small, "state")
			}
			require.NoError(t, os.CopyFS(dir, os.DirFS("testdata")))
			filler, err := os.Create(filepath.Join(small, "filler"))
			require.NoError(t, err)
			defer filler.Close() // before the unmount
			page := make([]byte, 4096)
			for err == nil {
				_, err = filler.Write(page)
			}
			require.ErrorIs(t, err, syscall.ENOSPC)
			before := snapshot(t, dir)
			for pages := range int64(12) { // each time a little more fits
				info, err := filler.Stat()
				require.NoError(t, err)
				e, err := Prepare(dir, negatives("8"))
				require.NoError(t, err)
				if err = e.Apply(state); err == nil {
					require.Positive(t, pages)
					_, err = Undo(state, dir, false)
					require.NoError(t, err)
					require.Equal(t, before, snapshot(t, dir))
					return
				}
				require.ErrorIs(t, err, syscall.ENOSPC)
				require.ErrorContains(t, err, "free some space")
				require.Equal(t, before, snapshot(t, dir))
				require.NoError(t, filler.Truncate(info.Size()-4096))
			}
			t.Fatal("it never fitted")
		})
	}
}
