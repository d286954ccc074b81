package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeFolder creates the folder dir and its missing parents, and syncs the parent of each folder that it creates.
// Without these syncs, a power cut could lose the new folder's name and all of its content, even content that was
// synced. MakeFolder leaves an existing folder alone.
func MakeFolder(dir string, mode os.FileMode) error {
	info, err := os.Stat(dir)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, mode) // reports what is wrong
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
	// a folder without read permission cannot be synced
	if err := SyncFolder(parent); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}
