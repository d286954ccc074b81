package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// manifestName marks a folder as an export. It is written last.
const manifestName = "swarm-export.json"

// manifest says what an export holds.
type manifest struct {
	Kind   string   `json:"kind"`
	Format string   `json:"format"`
	Runs   []string `json:"runs"`
	Files  []File   `json:"files"`
}

const manifestKind = "swarm export"

// ForeignError is a folder with something in it that is no export, or a file that is none.
type ForeignError struct{ Dir, File string }

func (e *ForeignError) Error() string {
	if e.File != "" {
		return fmt.Sprintf("%s is there and no export of this program's", e.File)
	}
	return fmt.Sprintf("%s isn't empty and no export of this program's", e.Dir)
}

// folder is the export's, being written.
type folder struct {
	dir    string
	root   *os.Root
	former []File // of the export that is replaced
	files  []File
}

// openFolder makes the folder where it is missing. Into one that holds something else than an export it writes only
// with force, and leaves what it doesn't replace.
func openFolder(dir string, force bool) (*folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	f := &folder{dir: dir, root: root}
	former, err := f.readManifest()
	switch {
	case err == nil:
		f.former = former.Files
		return f, nil
	case force:
		return f, nil
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err == nil && len(entries) > 0 {
		err = &ForeignError{Dir: dir}
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, nil
}

func (f *folder) readManifest() (manifest, error) {
	var m manifest
	file, err := f.root.Open(manifestName)
	if err != nil {
		return m, err
	}
	defer file.Close()
	if err := json.NewDecoder(io.LimitReader(file, 64<<20)).Decode(&m); err != nil {
		return m, err
	}
	if m.Kind != manifestKind {
		return m, errors.New("no export's")
	}
	return m, nil
}

// write writes a file of the folder whole or not at all. Fill returns how many rows it wrote.
func (f *folder) write(name string, fill func(w io.Writer) (rows int, err error)) error {
	if parent := filepath.Dir(name); parent != "." {
		if err := f.root.MkdirAll(parent, 0o755); err != nil {
			return fmt.Errorf("export: %w", err)
		}
	}
	temporary := name + ".tmp"
	file, err := f.root.Create(temporary)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	counted := &counter{w: file}
	rows, err := fill(counted)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = f.root.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("export %s: %w", name, err), ignoreMissing(f.root.Remove(temporary)))
	}
	f.files = append(f.files, File{filepath.ToSlash(name), rows, counted.n})
	return nil
}

// finish removes what the former export had and this one hasn't, and marks the folder.
func (f *folder) finish(format string, runs []string) error {
	for _, old := range f.former {
		kept := slices.ContainsFunc(f.files, func(x File) bool { return x.Path == old.Path })
		name := filepath.FromSlash(old.Path)
		if kept || !filepath.IsLocal(name) || name == manifestName || filepath.Clean(name) == "." {
			continue
		}
		if err := ignoreMissing(f.root.Remove(name)); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			if f.root.Remove(dir) != nil { // it isn't empty
				break
			}
		}
	}
	text, err := json.MarshalIndent(manifest{manifestKind, format, runs, f.files}, "", " ")
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	files := f.files
	err = f.write(manifestName, func(w io.Writer) (int, error) {
		_, err := w.Write(append(text, '\n'))
		return 0, err
	})
	f.files = files
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// counter counts what goes through it.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// safeNames makes names of folders from names that anybody may have chosen.
type safeNames map[string]bool

// take returns a name of at most 128 letters, digits and signs that is like name and was not returned before, in any
// case of letters.
func (s safeNames) take(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, name)
	if safe = strings.TrimLeft(safe[:min(len(safe), 120)], "."); safe == "" {
		safe = "_"
	}
	unique := safe
	for i := 2; s[strings.ToLower(unique)]; i++ {
		unique = fmt.Sprintf("%s~%d", safe, i)
	}
	s[strings.ToLower(unique)] = true
	return unique
}
