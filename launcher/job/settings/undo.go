package settings

import (
	"fmt"
	"os"
	"slices"
)

// Undo restores the files that the newest Apply in a folder changed: all of them or none. It refuses if a file was
// edited since, unless force is set. Then it keeps the edited file as another backup. The next Undo completes an
// interrupted one.
func Undo(state, dir string, force bool) ([]Restored, error) {
	root, err := realFolder(dir)
	if err != nil {
		return nil, err
	}
	lock, err := lockState(state)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	live, _, err := sweep(state)
	if err != nil {
		return nil, err
	}
	path, j, err := newest(state, root)
	if err == nil {
		err = inUse(live, j.Files)
	}
	if err != nil {
		return nil, err
	}
	for _, f := range j.Files {
		if err := f.undoable(force); err != nil {
			return nil, err
		}
	}
	var restored []Restored
	for i, f := range j.Files {
		if err := f.undo(); err != nil {
			return restored, fmt.Errorf("cannot restore %s: %w. Try: fix that, and undo again for the rest", f.Name, err)
		}
		restored = append(restored, Restored{Path: f.Name})
		reached("undone", i)
	}
	return restored, os.Remove(path)
}

// newest finds the last Apply in a folder. It skips damaged journals.
func newest(state, root string) (string, journal, error) {
	numbers := entries(state, undoName)
	slices.Reverse(numbers)
	for _, n := range numbers {
		path := undoFile(state, n)
		if j, err := loadJournal(path); err == nil && j.Dir == root {
			return path, j, nil
		}
	}
	return "", journal{}, fmt.Errorf("nothing to undo in %s. Try: --dir with the folder where the values were applied", root)
}

// undone reports whether an interrupted Undo has already restored the file.
func (f *record) undone() bool { return contentOf(f.Path) == f.Before && !exists(f.Kept) }

func (f *record) undoable(force bool) error {
	now := contentOf(f.Path)
	switch {
	case f.undone():
		return nil
	case contentOf(f.Kept) != f.Before:
		return fmt.Errorf("cannot undo: %s, the backup of %s, is missing or was changed. Try: restore the values by hand%s", f.Kept, f.Name, f.wrote())
	case !force && now != f.Before && !slices.Contains(f.Wrote, now):
		return fmt.Errorf("cannot undo: %s was edited since. Try: --force, which keeps the edited file as a backup%s", f.Name, f.wrote())
	}
	return nil
}

// undo restores the file from its backup. It keeps another program's changes as another backup.
func (f *record) undo() error {
	if f.undone() {
		return nil
	}
	if now := contentOf(f.Path); now != "" && now != f.Before && !slices.Contains(f.Wrote, now) {
		data, info, err := readFile(f.Path, f.Path)
		if err != nil {
			return err
		}
		if err := stage(backupName(f.Path), data, info, true); err != nil {
			return err
		}
	}
	return swap(f.Kept, f.Path)
}
