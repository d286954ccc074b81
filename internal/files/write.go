package files

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Write replaces the content of the file at path with data, through a synced temporary file in the same folder.
// After a crash or a full disk, and for a concurrent reader, the file has the old content or the new, never a part.
// On an error the file is unchanged.
func Write(path string, data []byte) error { return write(path, data, 0o644) }

// WriteSecret is Write for a file that only its owner may read.
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

// SyncFolder syncs a folder's entries to disk. It returns nil if the file system does not support that.
func SyncFolder(dir string) error {
	folder, err := os.Open(dir)
	return syncOpened(folder, err)
}

// SyncFolderIn is SyncFolder for a folder in root.
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

// Ensure is Write, but does not touch a file whose content already equals data.
func Ensure(path string, data []byte) error { return ensure(path, data, Write) }

// EnsureSecret is WriteSecret, but does not touch a file whose content already equals data.
func EnsureSecret(path string, data []byte) error { return ensure(path, data, WriteSecret) }

func ensure(path string, data []byte, write func(string, []byte) error) error {
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, data) {
		return nil
	}
	return write(path, data)
}

// Replace writes data to the file temporary and renames it to path. A reader sees the old content or the new.
// Replace does not sync: a crash of the machine may leave an empty file. Only one process at a time may write the
// file. On an error the file is unchanged and temporary is removed.
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
