// Package files provides file operations that several packages share. It writes small files atomically, locks
// files, and measures and removes folders without leaving their root. It imports nothing of this module.
package files

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"time"
)

// Budget bounds the total work of several calls of Size.
type Budget struct {
	Entries int       // files and folders left to visit
	Until   time.Time // when to stop
}

// spend uses up one entry of the budget and reports whether the budget allowed it.
func (b *Budget) spend() bool {
	b.Entries--
	return b.Entries >= 0 && time.Now().Before(b.Until)
}

var errBudget = errors.New("the budget is used up")

// Size returns the total bytes of the files in the folder name of root. It does not follow links, and counts them
// as 0. A missing name has 0 bytes. whole is false if the budget ran out or something could not be read. bytes is a
// lower bound then. An error means that name leads out of root.
func Size(root *os.Root, name string, budget *Budget) (bytes int64, whole bool, err error) {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, true, nil
	case err != nil:
		return 0, false, err
	case info.Mode().IsRegular():
		return info.Size(), true, nil
	case !info.IsDir():
		return 0, true, nil
	}
	whole = true
	err = fs.WalkDir(root.FS(), path.Clean(name), func(_ string, entry fs.DirEntry, err error) error {
		if !budget.spend() {
			return errBudget
		}
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a file that has just been removed counts as 0
			whole = false
		}
		return nil
	})
	return bytes, whole && err == nil, nil
}
