package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sapo-swarm/swarm/configs"
)

// Loan holds files during a job. Processes that use the same state folder can't change these files meanwhile. Use a
// Loan from one goroutine.
type Loan struct {
	dir     string
	job     *transaction
	sources []*source // original files
	now     [][]byte  // current content of each file
}

// Lend takes the files of the places for owner and saves their bytes in the state folder. Other jobs see owner as the
// name of the job. The places must be expanded, and every value must exist. If another job holds a file, the error
// wraps ErrInUse.
func Lend(state, dir, owner string, places []Place) (*Loan, error) {
	changes := make([]Change, len(places))
	for i, p := range places {
		changes[i].Place = p
	}
	paths, wanted, err := sorted(dir, changes)
	if err != nil {
		return nil, err
	}
	j := journal{Owner: owner}
	for _, path := range paths {
		j.Files = append(j.Files, record{Name: wanted[path][0].File, Path: path})
	}
	t, err := begin(state, j)
	if err != nil {
		return nil, err
	}
	l := &Loan{dir: dir, job: t}
	if err := l.keep(changes); err != nil {
		t.end()
		return nil, err
	}
	return l, nil
}

// keep reads and saves the files.
func (l *Loan) keep(changes []Change) error {
	sources, wanted, err := gather(l.dir, changes)
	if err != nil {
		return err
	}
	for i, s := range sources {
		if err := s.writable(); err != nil {
			return err
		}
		for _, c := range wanted[s.path] {
			if _, err := s.find(c.Key); err != nil {
				return err
			}
		}
		kept := filepath.Join(l.job.folder(), strconv.Itoa(i)+".kept")
		if err := stage(kept, s.data, s.info, true); err != nil {
			return stateError(l.job.state, err)
		}
		r := l.job.record(s.path)
		r.Before, r.Kept = sum(s.data), kept
		l.sources, l.now = append(l.sources, s), append(l.now, s.data)
		reached("kept", i)
	}
	if err := l.job.save(); err != nil {
		return stateError(l.job.state, err)
	}
	return nil
}

// Set gives the files their original content with the changes. Each Set replaces the previous one. On an error the
// files keep their content.
func (l *Loan) Set(changes []Change) error {
	if l.job == nil {
		return errors.New("the loan has ended")
	}
	_, wanted, err := sorted(l.dir, changes)
	if err != nil {
		return err
	}
	var next, back []edited
	for i, s := range l.sources {
		content, edits, err := s.edit(wanted[s.path])
		if err != nil {
			return err
		}
		delete(wanted, s.path)
		if string(content) != string(l.now[i]) {
			was := *s
			was.data = l.now[i]
			next = append(next, edited{source: &was, content: content, edits: edits})
			is := *s
			is.data = content
			back = append(back, edited{source: &is, content: l.now[i], edits: l.job.record(s.path).Edits})
		}
	}
	for path := range wanted {
		return &configs.Error{Key: "file", Value: path, Allowed: "a file that this job has changed"}
	}
	if err := l.write(next, back); err != nil {
		return err
	}
	for i, s := range l.sources {
		for _, f := range next {
			if f.path == s.path {
				l.now[i] = f.content
			}
		}
	}
	return nil
}

// write replaces files. On an error it restores the files that it has replaced.
func (l *Loan) write(next, back []edited) error {
	err := l.job.replace(next)
	if err == nil {
		return nil
	}
	for i, f := range next {
		os.Remove(l.job.record(f.path).Temporary)
		if contentOf(f.path) == sum(f.content) {
			if undo := l.job.replace(back[i : i+1]); undo != nil {
				err = fmt.Errorf("%w; %w", err, undo)
			}
		}
	}
	return err
}

// Revert restores every file's original bytes and ends the loan. It leaves a file alone that another program has
// changed, and the error names this file and the values written to it. If a file can't be written, the next Recover
// tries again. A second Revert does nothing.
func (l *Loan) Revert() error {
	if l.job == nil {
		return nil
	}
	t := l.job
	l.job = nil
	restored, again := t.putBack()
	var errs []error
	for _, r := range restored {
		if r.Left != "" {
			errs = append(errs, fmt.Errorf("%s %s", r.Path, r.Left))
		}
	}
	if again {
		t.alive.Close() // keep the journal
	} else {
		t.end()
	}
	return errors.Join(errs...)
}
