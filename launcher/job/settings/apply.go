package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// Apply writes all files or none. It keeps a backup beside each file (config.yaml.backup, then .backup.1 …), and
// records in the state folder how to Undo the change. It returns an error if a file has changed since Prepare, or if
// a Loan holds it (ErrInUse). Apply follows a symbolic link and replaces the link's target.
func (e *Edition) Apply(state string) error {
	if len(e.files) == 0 {
		return nil
	}
	j := journal{Owner: "another change", Dir: e.dir}
	for _, f := range e.files {
		j.Files = append(j.Files, record{Name: f.name, Path: f.path, Before: sum(f.data), Edits: f.edits})
	}
	t, err := begin(state, j)
	if err != nil {
		return err
	}
	defer t.end()
	if err = t.backUp(e.files); err == nil {
		err = t.replace(e.files)
	}
	if err == nil {
		if err = saveJournal(undoFile(state, t.number), t.journal); err != nil {
			err = stateError(state, err)
		}
		reached("noted", 0)
	}
	if err != nil {
		return t.giveUp(err)
	}
	for i := range e.files {
		e.files[i].backup = t.Files[i].Kept
	}
	forgetOldest(state)
	return nil
}

// giveUp reverts the completed part of an Apply.
func (t *transaction) giveUp(err error) error {
	t.Files = slices.DeleteFunc(t.Files, func(f record) bool {
		if f.replaced {
			return false
		}
		f.dropTemporary()
		if f.Kept != "" && contentOf(f.Kept) == f.Before {
			os.Remove(f.Kept)
		}
		return true
	})
	restored, again := t.putBack()
	for _, r := range restored {
		if r.Left != "" {
			err = fmt.Errorf("%w; %s %s", err, r.Path, r.Left)
		}
	}
	if again {
		err = fmt.Errorf("%w; its backup is beside it", err)
	}
	return err
}

// backUp copies each file. If another program creates a file with the backup's name meanwhile, backUp chooses the
// next name.
func (t *transaction) backUp(files []edited) error {
	for i, f := range files {
		for {
			name := backupName(f.path)
			t.Files[i].Kept = name
			if err := t.save(); err != nil {
				return stateError(t.state, err)
			}
			err := stage(name, f.data, f.info, true)
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			if err != nil {
				t.Files[i].Kept = ""
				return fileError(f.name, "back up", err)
			}
			break
		}
		reached("backup", i)
	}
	return nil
}

// replace gives each file its new content, after all contents are on disk. On an error some files may already be
// replaced.
func (t *transaction) replace(files []edited) error {
	for i := range files {
		r := t.record(files[i].path)
		r.Temporary, r.Edits = temporaryName(r.Path), files[i].edits
		r.Wrote = append(slices.Clip(r.Wrote), sum(files[i].content))
	}
	if err := t.save(); err != nil {
		return stateError(t.state, err)
	}
	for i, f := range files {
		if err := stage(t.record(f.path).Temporary, f.content, f.info, sum(f.content) == t.record(f.path).Before); err != nil {
			return fileError(f.name, "write", err)
		}
		reached("staged", i)
	}
	for _, f := range files {
		if err := f.unchanged(); err != nil {
			return err
		}
	}
	for i, f := range files {
		if err := f.unchanged(); err != nil { // again: the files before this one took a while
			return err
		}
		if err := swap(t.record(f.path).Temporary, f.path); err != nil {
			return fileError(f.name, "write", err)
		}
		t.record(f.path).replaced = true
		reached("replaced", i)
	}
	return nil
}

func (s *source) unchanged() error {
	if contentOf(s.path) == sum(s.data) {
		return nil
	}
	return fmt.Errorf("another program has changed %s in the meantime, so nothing was written. Try: the same command again", s.name)
}

func (t *transaction) record(path string) *record {
	i := slices.IndexFunc(t.Files, func(f record) bool { return f.Path == path })
	return &t.Files[i]
}

func fileError(name, verb string, err error) error {
	try := "fix its permissions"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		try = "free some space"
	case errors.Is(err, syscall.EROFS):
		try = "copy it to a writable disk"
	case errors.Is(err, syscall.EBUSY):
		try = "change the file at the source of the mount"
	}
	return fmt.Errorf("cannot %s %s, so nothing was changed: %w. Try: %s", verb, name, err, try)
}

// forgetOldest removes the oldest undo journals.
func forgetOldest(state string) {
	numbers := entries(state, undoName)
	for _, n := range numbers[:max(0, len(numbers)-maxUndo)] {
		os.Remove(undoFile(state, n))
	}
}
