// Package export writes recorded runs for other programs: tables as CSV or JSON lines, curves as TensorBoard event
// files, or a small database that every command which shows runs can read. It writes what metrics/store has recorded
// and what metrics/query makes of it, and computes nothing itself. Rows are streamed: no table is ever held in memory.
// Everything is written below one folder that is marked as an export; another folder is left alone unless told
// otherwise. Import takes over the runs of such a database.
package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Formats.
const (
	FormatCSV         = "csv"
	FormatJSONL       = "jsonl"
	FormatTensorBoard = "tensorboard"
)

// Formats names what can be written.
func Formats() []string { return []string{FormatCSV, FormatJSONL, FormatTensorBoard, FormatSQLite} }

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

// Options choose what is written.
type Options struct {
	Format string
	Runs   []store.Run // in this order
	Jobs   []string    // keys, in this order; none are in event files
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
	return f.files, f.finish(o.Format, runKeys(o.Runs))
}

func writeTables(ctx context.Context, reader *store.Reader, f *folder, o Options) error {
	for _, table := range o.Tables {
		err := f.write(table+"."+o.Format, func(w io.Writer) (int, error) { return Table(ctx, reader, w, o.Format, table, o.Runs, o.Jobs...) })
		if err != nil {
			return err
		}
	}
	return nil
}

// TableFile writes one table to the file at path, which it replaces, whole or not at all.
func TableFile(ctx context.Context, reader *store.Reader, path, format, table string, runs []store.Run, jobs ...string) ([]File, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	defer root.Close()
	f := &folder{root: root}
	err = f.write(filepath.Base(path), func(w io.Writer) (int, error) { return Table(ctx, reader, w, format, table, runs, jobs...) })
	return f.files, err
}
