package files

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Write makes the file at path hold data, through a synced temporary file beside it: a crash, a full disk or a reader
// at the same moment sees the old content or the new, never a part. On an error the file is as it was.
func Write(path string, data []byte) error { return write(path, data, 0o644) }

// WriteSecret is Write of a file that only its owner may read.
func WriteSecret(path string, data []byte) error { return write(path, data, 0o600) }

func write(path string, data []byte, mode os.FileMode) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temporary.Name())
		}
	}()
	_, err = temporary.Write(data)
	if err := errors.Join(err, temporary.Chmod(mode), temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder brings the names in a folder onto the disk. It is no error where the file system can't do that.
func SyncFolder(dir string) error {
	folder, err := os.Open(dir)
	return syncOpened(folder, err)
}

// SyncFolderIn is SyncFolder of a folder in root.
func SyncFolderIn(root *os.Root, dir string) error {
	folder, err := root.Open(dir)
	return syncOpened(folder, err)
}

func syncOpened(folder *os.File, err error) error {
	if err != nil {
		return err
	}
	defer folder.Close()
	err = folder.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.EBADF) {
		return nil
	}
	return err
}

// Ensure is Write, but leaves a file alone that holds data already.
func Ensure(path string, data []byte) error { return ensure(path, data, Write) }

// EnsureSecret is WriteSecret, but leaves a file alone that holds data already.
func EnsureSecret(path string, data []byte) error { return ensure(path, data, WriteSecret) }

func ensure(path string, data []byte, write func(string, []byte) error) error {
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, data) {
		return nil
	}
	return write(path, data)
}

// Replace writes data to the file temporary and renames it to path: a reader sees the old content or the new. It
// doesn't sync, so that a crash of the machine may leave an empty file. One process at a time may write the file. On an
// error the file is as it was, and temporary is gone.
func Replace(path, temporary string, data []byte, mode os.FileMode) error {
	err := os.WriteFile(temporary, data, mode)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		os.Remove(temporary)
	}
	return err
}
