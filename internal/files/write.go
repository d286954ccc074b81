package files

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
)

// Write makes the file at path hold data, through a synced temporary file beside it. On an error the file is as it was.
func Write(path string, data []byte) error { return write(path, data, 0o644) }

// WriteSecret is Write of a file that only its owner may read.
func WriteSecret(path string, data []byte) error { return write(path, data, 0o600) }

func write(path string, data []byte, mode os.FileMode) (err error) {
	dir := filepath.Dir(path)
	temporary, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*.tmp")
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
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// Ensure is Write, but leaves a file alone that holds data already.
func Ensure(path string, data []byte) error {
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, data) {
		return nil
	}
	return Write(path, data)
}
