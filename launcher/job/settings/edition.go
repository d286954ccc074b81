package settings

import (
	"bytes"
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
)

// Get returns the value at a place of one file.
func Get(dir string, p Place) (Value, error) {
	places, err := Expand(dir, p)
	if err != nil {
		return Value{}, err
	}
	if len(places) != 1 {
		return Value{}, &configs.Error{Key: "file", Value: p.File, Allowed: fmt.Sprintf("one file; this matches %d", len(places))}
	}
	path, err := realPath(dir, places[0])
	if err != nil {
		return Value{}, err
	}
	s, err := readSource(places[0].File, path)
	if err != nil {
		return Value{}, err
	}
	at, err := s.find(p.Key)
	return Value{Text: at.leaf.text, Number: err == nil && at.leaf.isNumber(), Line: at.line()}, err
}

func (s spot) line() int {
	if s.node == nil {
		return 0
	}
	return s.node.line
}

// Edition is a set of checked changes that are not yet applied.
type Edition struct {
	dir   string // absolute, without symbolic links
	files []edited
}

// edited is a file with its new content.
type edited struct {
	*source
	content []byte
	edits   []Edit
	backup  string
}

// Prepare reads the files and checks the changes. It writes nothing. User errors are configs.Errors.
func Prepare(dir string, changes []Change) (*Edition, error) {
	root, err := realFolder(dir)
	if err != nil {
		return nil, err
	}
	e := &Edition{dir: root}
	sources, wanted, err := gather(dir, changes)
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		f, err := prepare(s, wanted[s.path])
		if err != nil {
			return nil, err
		}
		if len(f.edits) > 0 {
			e.files = append(e.files, f)
		}
	}
	return e, nil
}

// prepare applies the changes to one file's content.
func prepare(s *source, changes []Change) (edited, error) {
	content, edits, err := s.edit(changes)
	if err == nil && len(edits) > 0 {
		err = s.writable()
	}
	return edited{source: s, content: content, edits: edits}, err
}

// gather reads each file once, under any of its names, and groups the changes by path.
func gather(dir string, changes []Change) ([]*source, map[string][]Change, error) {
	paths, wanted, err := sorted(dir, changes)
	if err != nil {
		return nil, nil, err
	}
	var sources []*source
	for _, path := range paths {
		s, err := readSource(wanted[path][0].File, path)
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, s)
	}
	return sources, wanted, nil
}

// sorted returns the real paths of the changes in order, and the changes of each path.
func sorted(dir string, changes []Change) (paths []string, wanted map[string][]Change, err error) {
	wanted = map[string][]Change{}
	for _, c := range changes {
		places, err := Expand(dir, c.Place)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range places {
			path, err := realPath(dir, p)
			if err != nil {
				return nil, nil, err
			}
			if wanted[path] == nil {
				paths = append(paths, path)
			}
			wanted[path] = append(wanted[path], Change{p, c.To})
		}
	}
	return paths, wanted, nil
}

// Files lists the files that will change.
func (e *Edition) Files() []FileChange {
	files := make([]FileChange, len(e.files))
	for i, f := range e.files {
		files[i] = FileChange{Path: f.name, Edits: f.edits, Backup: f.backup}
	}
	return files
}

// Diff returns the change in unified form with 3 lines of context, or "" if there is none. patch -p0 applies it in
// the folder of Prepare.
func (e *Edition) Diff() string {
	var b bytes.Buffer
	for _, f := range e.files {
		diff(&b, f.name, f.data, f.content)
	}
	return b.String()
}
