package sharedir

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/files"
)

// keepSnapshots is the number of snapshots to keep: the previous one may still be syncing when a new one is written.
const keepSnapshots = 2

const snapshotStem = "swarm"

// Snapshot copies a database into the folder. src writes a consistent copy to a local path. Snapshot then copies that
// file to snapshots/ under a name with its length and hash, so that readers can detect an incomplete file. It keeps the
// newest two snapshots. It writes nothing if the content is unchanged.
func Snapshot(ctx context.Context, src func(ctx context.Context, path string) error, dir, run string) error {
	local, err := os.MkdirTemp("", "swarm-snapshot-")
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	defer os.RemoveAll(local)
	file := filepath.Join(local, "swarm.db")
	if err := src(ctx, file); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if err := copySnapshot(ctx, file, baseOf(dir), path.Join(runPath(run), snapshotPart)); err != nil {
		return fmt.Errorf("snapshot: %w", explain(dir, err))
	}
	return nil
}

type snapshotFile struct {
	entry
	number int
}

// snapshots lists the snapshots, newest first.
func snapshots(t *tree, folder string) ([]snapshotFile, error) {
	names, err := t.list(folder)
	if err != nil {
		return nil, err
	}
	var found []snapshotFile
	for _, name := range names {
		e, ok := parseName(name)
		if !ok {
			continue
		}
		text, ok := strings.CutPrefix(e.stem, snapshotStem+"-")
		if n, err := strconv.Atoi(text); ok && err == nil && n >= 0 && len(text) == 8 {
			found = append(found, snapshotFile{e, n})
		}
	}
	slices.SortFunc(found, func(a, b snapshotFile) int { return cmp.Or(b.number-a.number, cmp.Compare(a.name, b.name)) })
	return found, nil
}

func copySnapshot(ctx context.Context, file string, t *tree, folder string) error {
	size, hash, err := hashFile(file)
	if err != nil {
		return err
	}
	present, err := snapshots(t, folder)
	if err != nil {
		return err
	}
	number := 1
	if len(present) > 0 {
		newest := present[0]
		if newest.hash == hash && newest.size == size && t.size(path.Join(folder, newest.name)) == size {
			return nil
		}
		number = newest.number + 1
	}
	name := fmt.Sprintf("%s-%08d-%d-%s.db", snapshotStem, number, size, hash)
	if err := copyInto(ctx, file, t, folder, name); err != nil {
		return err
	}
	for _, old := range present[min(len(present), keepSnapshots-1):] {
		if err := t.remove(path.Join(folder, old.name)); err != nil {
			return err
		}
	}
	return nil
}

func hashFile(file string) (int64, string, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	return size, hex.EncodeToString(sum.Sum(nil)[:16]), err
}

// copyInto writes a large file in pieces. On an error it leaves no file.
func copyInto(ctx context.Context, file string, t *tree, folder, name string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	root, err := t.open()
	if err != nil {
		return err
	}
	defer root.Close()
	full := path.Join(folder, name)
	out, err := create(root, folder, full)
	if err != nil {
		return err
	}
	for err == nil && ctx.Err() == nil {
		_, err = io.CopyN(out, in, 4<<20)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	} else if err == nil {
		err = context.Cause(ctx)
	}
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		_ = root.Remove(full)
		return err
	}
	return files.SyncFolderIn(root, folder)
}
