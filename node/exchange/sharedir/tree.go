package sharedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/sapo-swarm/swarm/internal/files"
)

// maxEntries bounds a listing. No honest folder has more.
const maxEntries = 100_000

// errPartial reports that a file's content doesn't match its name yet.
var errPartial = errors.New("not complete yet")

// tree reads and writes below an existing folder. It opens the folder for every operation. So it continues after a
// remount, and never creates a missing folder on the disk below its mount point. No link leads out of the folder.
type tree struct {
	path   string
	counts counts
}

// counts counts the operations that are expensive on a network drive.
type counts struct {
	lists, names, reads, writes atomic.Int64
}

func newTree(path string) *tree { return &tree{path: path} }

func (t *tree) open() (*os.Root, error) { return os.OpenRoot(t.path) }

// list returns the names in a folder, none if the folder doesn't exist. An error means that the tree itself is missing.
func (t *tree) list(dir string) ([]string, error) {
	root, err := t.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	t.counts.lists.Add(1)
	// An ordinary open would block on a pipe in place of the folder.
	d, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || !isFolder(root, dir) {
			return nil, nil
		}
		return nil, err
	}
	defer d.Close()
	var names []string
	for len(names) < maxEntries {
		some, err := d.Readdirnames(4096)
		names = append(names, some...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return names, err
		}
	}
	t.counts.names.Add(int64(len(names)))
	return names, nil
}

// isFolder reports whether a path has no element that is a link or another non-folder. A missing path counts as a
// folder.
func isFolder(root *os.Root, dir string) bool {
	for at := dir; at != "."; at = path.Dir(at) {
		if info, err := root.Lstat(at); err == nil && !info.IsDir() {
			return false
		}
	}
	return true
}

// take returns the content of a file that matches its name, errPartial if it doesn't match (yet).
func (t *tree) take(dir string, e entry, limit int64) ([]byte, error) {
	if e.size > limit {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", errUnpack, e.size, limit)
	}
	data, err := t.read(path.Join(dir, e.name), limit)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != e.size || hashOf(data) != e.hash {
		return nil, errPartial
	}
	return data, nil
}

// read returns a regular file's content. It returns errPartial if the file is missing, and fs.ErrInvalid if it is not a
// regular file or larger than limit.
func (t *tree) read(name string, limit int64) ([]byte, error) {
	root, err := t.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(name) // before opening, so that no link is followed and no device is opened
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errPartial
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is not a file", fs.ErrInvalid, name)
	case info.Size() > limit:
		return nil, fmt.Errorf("%w: %s has %d bytes, more than %d", fs.ErrInvalid, name, info.Size(), limit)
	}
	t.counts.reads.Add(1)
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errPartial
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, err
	}
	return data, nil
}

// size returns a regular file's length in bytes, -1 for anything else.
func (t *tree) size(name string) int64 {
	root, err := t.open()
	if err != nil {
		return -1
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	return info.Size()
}

// put writes a file durably: when it returns nil, the file survives a crash of this machine. It does nothing if the
// file exists. It returns the file's name.
func (t *tree) put(dir, stem, extension string, data []byte) (string, error) {
	name := nameOf(stem, extension, data)
	root, err := t.open()
	if err != nil {
		return name, err
	}
	defer root.Close()
	full := path.Join(dir, name)
	if present, err := t.read(full, int64(len(data))); err == nil && hashOf(present) == hashOf(data) && len(present) == len(data) {
		return name, nil
	}
	err = write(root, dir, full, data) // an existing file was torn by a crash, or planted
	t.counts.writes.Add(1)
	return name, err
}

// replace overwrites a file in place. Use it for rl-swarm's files, whose names don't describe their content.
func (t *tree) replace(dir, name string, data []byte) error {
	root, err := t.open()
	if err != nil {
		return err
	}
	defer root.Close()
	t.counts.writes.Add(1)
	return write(root, dir, path.Join(dir, name), data)
}

// write overwrites a file. On an error it leaves no file.
func write(root *os.Root, dir, full string, data []byte) error {
	f, err := create(root, dir, full)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = root.Remove(full) // a torn file is harmless but takes space
		return err
	}
	return files.SyncFolderIn(root, dir)
}

// create opens an empty file and creates missing folders.
func create(root *os.Root, dir, full string) (*os.File, error) {
	if err := makeFolders(root, dir); err != nil {
		return nil, err
	}
	if info, err := root.Lstat(full); err == nil && !info.Mode().IsRegular() { // never write to a link's target
		if err := root.Remove(full); err != nil {
			return nil, err
		}
	}
	return root.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0o666)
}

// makeFolders creates a folder and its missing parents, and syncs them to disk.
func makeFolders(root *os.Root, dir string) error {
	if info, err := root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := root.MkdirAll(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for at := dir; at != "."; at = path.Dir(at) {
		if err := files.SyncFolderIn(root, path.Dir(at)); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a file. A missing file is no error.
func (t *tree) remove(name string) error {
	root, err := t.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// baseOf returns the tree of swarm's files in an experiment's folder.
func baseOf(dir string) *tree { return newTree(filepath.Join(dir, base)) }
