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

// manifestName is the file that marks a folder as an export. It is written last.
const manifestName = "swarm-export.json"

// manifest lists the contents of an export.
type manifest struct {
	Kind   string   `json:"kind"`
	Format string   `json:"format"`
	Runs   []string `json:"runs"`
	Files  []File   `json:"files"`
}

const manifestKind = "swarm export"

// ForeignError reports a non-empty folder that is not an export, or a file that is not one.
type ForeignError struct{ Dir, File string }

func (e *ForeignError) Error() string {
	if e.File != "" {
		return fmt.Sprintf("%s exists and is not a swarm export", e.File)
	}
	return fmt.Sprintf("%s is not empty and is not a swarm export", e.Dir)
}

// folder is the folder of an export being written.
type folder struct {
	dir    string
	root   *os.Root
	former []File // files of the export that is replaced
	files  []File
}

// openFolder opens the folder, and creates it if it is missing. It accepts a non-empty folder that is not an export
// only with force, and leaves files there that it does not replace.
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
		return m, errors.New("not the manifest of an export")
	}
	return m, nil
}

// write writes a file of the folder atomically. fill returns the number of rows that it wrote.
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

// finish removes files of the former export that the new one lacks, and writes the manifest.
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
			if f.root.Remove(dir) != nil { // the folder is not empty
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

// counter counts the written bytes.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// safeNames converts untrusted names to names of folders.
type safeNames map[string]bool

// take returns a name of at most 128 letters, digits and signs that resembles name. It never returns the same name
// twice, ignoring case.
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
