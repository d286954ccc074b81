// Package export writes recorded runs for other programs: tables as CSV or JSON lines, and curves as TensorBoard event files. It writes what
// metrics/store has recorded and what metrics/query makes of it, and computes nothing itself. Rows are streamed: no table is ever held
// in memory. Everything is written below one folder that is marked as an export; another folder is left alone unless told otherwise.
package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Formats.
const (
	FormatCSV         = "csv"
	FormatJSONL       = "jsonl"
	FormatTensorBoard = "tensorboard"
)

// Formats names what can be written.
func Formats() []string { return []string{FormatCSV, FormatJSONL, FormatTensorBoard} }

// aliases are short names of tables.
var aliases = map[string]string{"tasks": "task_rewards", "questions": "eval_questions"}

// Tables returns the tables of those names, all for none. The error is store.ErrNotFound, wrapped, for an unknown one.
func Tables(names []string) ([]string, error) {
	all := store.Tables()
	if len(names) == 0 {
		return all, nil
	}
	var tables []string
	for _, name := range names {
		if full, ok := aliases[name]; ok {
			name = full
		}
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("%w: no table %q", store.ErrNotFound, name)
		}
		if !slices.Contains(tables, name) {
			tables = append(tables, name)
		}
	}
	return tables, nil
}

// File is one that was written.
type File struct {
	Path  string `json:"path"` // within the folder, with slashes
	Rows  int    `json:"rows"` // of a table; of an event file, events
	Bytes int64  `json:"bytes"`
}

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

// ForeignError is a folder with something in it that is no export.
type ForeignError struct{ Dir string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s isn't empty and no export of this program's", e.Dir)
}

// folder is the export's, being written.
type folder struct {
	dir    string
	root   *os.Root
	former []File // of the export that is replaced
	files  []File
}

// openFolder makes the folder where it is missing. Into one that holds something else than an export it writes only with force, and
// leaves what it doesn't replace.
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
		err = &ForeignError{dir}
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
		if kept || !filepath.IsLocal(name) || name == manifestName {
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

// Options choose what is written.
type Options struct {
	Format string
	Runs   []store.Run // in this order
	Tables []string    // of csv and jsonl, as Tables returns them
	Force  bool        // write into a folder that is no export, beside what it holds
}

// Folder writes runs below dir. A file is there whole or not at all; an earlier export's in dir are replaced.
func Folder(ctx context.Context, reader *store.Reader, dir string, o Options) (files []File, err error) {
	f, err := openFolder(dir, o.Force)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.root.Close()) }()
	if o.Format == FormatTensorBoard {
		err = writeTensorBoard(ctx, reader, f, o.Runs)
	} else {
		err = writeTables(ctx, reader, f, o)
	}
	if err != nil {
		return nil, err
	}
	runs := make([]string, len(o.Runs))
	for i, r := range o.Runs {
		runs[i] = r.Run
	}
	return f.files, f.finish(o.Format, runs)
}

func writeTables(ctx context.Context, reader *store.Reader, f *folder, o Options) error {
	for _, table := range o.Tables {
		err := f.write(table+"."+o.Format, func(w io.Writer) (int, error) { return Table(ctx, reader, w, o.Format, table, o.Runs) })
		if err != nil {
			return err
		}
	}
	return nil
}

// safeNames makes names of folders from names that anybody may have chosen.
type safeNames map[string]bool

// take returns a name of at most 128 letters, digits and signs that is like name and was not returned before, in any case of letters.
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

// TableFile writes one table to the file at path, which it replaces, whole or not at all.
func TableFile(ctx context.Context, reader *store.Reader, path, format, table string, runs []store.Run) ([]File, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	defer root.Close()
	f := &folder{root: root}
	err = f.write(filepath.Base(path), func(w io.Writer) (int, error) { return Table(ctx, reader, w, format, table, runs) })
	return f.files, err
}
