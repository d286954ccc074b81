package settings

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/files"
)

// reached is called between the steps of a change. A test kills the process there.
var reached = func(step string, file int) {}

// stage writes and syncs data to a new file. The file gets the mode and the owner of the file like, and its
// modification time if times is set.
func stage(path string, data []byte, like fs.FileInfo, times bool) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(path)
		}
	}()
	_, err = file.Write(data)
	err = errors.Join(err, keepOwner(file, like))
	err = errors.Join(err, file.Chmod(like.Mode()&(fs.ModePerm|fs.ModeSetgid|fs.ModeSetuid|fs.ModeSticky)), file.Sync(), file.Close())
	if err == nil && times {
		err = os.Chtimes(path, time.Time{}, like.ModTime())
	}
	return err
}

// keepOwner gives a file the owner and the group of another file, like. Without root, only a change to one of the
// user's groups is possible.
func keepOwner(file *os.File, like fs.FileInfo) error {
	was, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if is, ok := info.Sys().(*syscall.Stat_t); ok && is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	if err := file.Chown(int(was.Uid), int(was.Gid)); err != nil {
		return fmt.Errorf("its owner would change (user %d, group %d): %w. Try: the same command as that user", was.Uid, was.Gid, err)
	}
	return nil
}

// swap replaces a file by a staged one, atomically.
func swap(staged, path string) error {
	if err := os.Rename(staged, path); err != nil {
		return err
	}
	_ = files.SyncFolder(filepath.Dir(path)) // the content is synced; syncing the name may be unsupported
	return nil
}

// temporaryName returns a new name in the folder of a file.
func temporaryName(path string) string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	return filepath.Join(filepath.Dir(path), ".swarm-"+hex.EncodeToString(random)+".tmp")
}

// backupName returns the first of FILE.backup, FILE.backup.1, … that does not exist.
func backupName(path string) string {
	name := path + ".backup"
	for i := 1; ; i++ {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = path + ".backup." + strconv.Itoa(i)
	}
}

// contentOf returns the SHA-256 of a file's content, or "" if the file is missing or not a readable regular file.
func contentOf(path string) string {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	data, _, err := readFile(path, path)
	if err != nil {
		return ""
	}
	return sum(data)
}

// beginsLike reports whether the content of the file part is a prefix of that of the file whole.
func beginsLike(part, whole string) bool {
	a, _, err := readFile(part, part)
	if err != nil {
		return false
	}
	b, _, err := readFile(whole, whole)
	return err == nil && bytes.HasPrefix(b, a)
}
