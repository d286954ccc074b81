package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/files"
)

// Recover restores files of dead processes: files of loans, and files of an incomplete Apply. It leaves a file alone
// that has changed since. Call it before a job and before Prepare.
func Recover(state string) ([]Restored, error) {
	if !exists(filepath.Join(state, openName)) {
		return nil, nil
	}
	lock, err := lockState(state)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	_, restored, err := sweep(state)
	return restored, err
}

// sweep restores files of dead processes and lists the journals of living ones. The caller holds the state's lock.
func sweep(state string) (live []journal, restored []Restored, err error) {
	for _, number := range entries(state, openName) {
		folder := openFolder(state, number)
		alive, err := os.OpenFile(filepath.Join(folder, aliveName), os.O_RDWR, 0)
		if err == nil && files.Lock(alive) != nil {
			alive.Close()
			if j, err := loadJournal(filepath.Join(folder, journalName)); err == nil {
				live = append(live, j)
			}
			continue
		}
		files, stuck, err := bury(state, number)
		restored = append(restored, files...)
		if stuck != nil { // no other process may take files that are not yet restored
			live = append(live, *stuck)
		}
		if alive != nil {
			alive.Close()
		}
		if err != nil {
			return live, restored, stateError(state, err)
		}
	}
	return live, restored, nil
}

// bury handles the journal of a dead process. stuck is that journal if a file could not be written.
func bury(state string, number int) (restored []Restored, stuck *journal, err error) {
	folder := openFolder(state, number)
	path := filepath.Join(folder, journalName)
	j, err := loadJournal(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), exists(undoFile(state, number)): // no file was changed yet, or all were
		return nil, nil, forget(folder)
	case err != nil:
		aside := filepath.Join(state, fmt.Sprintf("damaged-%d", number))
		return []Restored{{Path: path, Left: "is damaged; it is now in " + aside}}, nil, os.Rename(folder, aside)
	}
	restored, again := j.putBack()
	if again {
		return restored, &j, nil
	}
	return restored, nil, forget(folder)
}

// putBack restores every file's original content. again reports that a file could not be written and the journal is
// still needed.
func (j *journal) putBack() (restored []Restored, again bool) {
	for i := range j.Files {
		f := &j.Files[i]
		f.dropTemporary()
		switch now := contentOf(f.Path); {
		case f.Before == "": // it was not read yet
		case now == f.Before:
			if f.beside() && beginsLike(f.Kept, f.Path) {
				os.Remove(f.Kept)
			}
		case !slices.Contains(f.Wrote, now):
			restored = append(restored, Restored{f.Name, "was changed by another program in the meantime and stays as it is" + f.wrote()})
		default:
			r := Restored{Path: f.Name}
			if err := f.restore(); err != nil {
				r.Left, again = "cannot be restored: "+err.Error(), true
			}
			restored = append(restored, r)
		}
		reached("put back", i)
	}
	return restored, again
}

// dropTemporary removes a half-written temporary file, and only a file with a name of this package.
func (f *record) dropTemporary() {
	ours, _ := filepath.Match(".swarm-*.tmp", filepath.Base(f.Temporary))
	if ours && filepath.Dir(f.Temporary) == filepath.Dir(f.Path) {
		os.Remove(f.Temporary)
	}
}

// beside reports whether the original is a backup in the same folder.
func (f *record) beside() bool { return f.Kept != "" && filepath.Dir(f.Kept) == filepath.Dir(f.Path) }

// restore restores the original content. It renames a backup in the same folder, which needs no disk space.
func (f *record) restore() error {
	data, info, err := readFile(f.Kept, f.Kept)
	if err != nil {
		return err
	}
	if sum(data) != f.Before {
		return errors.New(f.Kept + " differs from the file's old contents")
	}
	if f.beside() {
		return swap(f.Kept, f.Path)
	}
	temporary := temporaryName(f.Path)
	if err := stage(temporary, data, info, true); err != nil {
		return err
	}
	if err := swap(temporary, f.Path); err != nil {
		os.Remove(temporary)
		return err
	}
	return nil
}

// wrote lists the values that swarm wrote into a file that has changed since.
func (f *record) wrote() string {
	var edits []string
	for _, e := range f.Edits {
		edits = append(edits, fmt.Sprintf("%s=%s over %s", e.Key, e.To, e.From))
	}
	if len(edits) == 0 {
		return ""
	}
	return "; swarm had written " + strings.Join(edits, ", ")
}
