package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeFolder makes the folder dir and those above it that are missing, and brings the names of the new ones onto the
// disk: without their names in the folders above, a power cut would take them with all that they hold, synced or not. A
// folder that is there is left alone.
func MakeFolder(dir string, mode os.FileMode) error {
	info, err := os.Stat(dir)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, mode) // which says what is wrong
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := MakeFolder(parent, mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := SyncFolder(parent); err != nil && !errors.Is(err, fs.ErrPermission) { // one that can't be listed can't be synced
		return err
	}
	return nil
}
