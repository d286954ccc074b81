// Package export writes recorded runs for other programs. The formats are tables as CSV or JSON lines, curves as
// TensorBoard event files, and a small database for all commands that show runs. It writes data of metrics/store and
// metrics/query, and computes nothing itself. It streams rows and never holds a table in memory. It writes below a
// single folder that it marks as an export. It writes to another folder only on request. Import imports the runs of
// such a database.
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

// Formats lists the supported formats.
func Formats() []string { return []string{FormatCSV, FormatJSONL, FormatTensorBoard, FormatSQLite} }

// aliases are short names of tables.
var aliases = map[string]string{"tasks": "task_rewards", "questions": "eval_questions"}

// Tables returns the tables with those names, or all if there are none. An unknown name is a wrapped store.ErrNotFound.
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

// File is a written file.
type File struct {
	Path  string `json:"path"` // within the folder, with slashes
	Rows  int    `json:"rows"` // rows of a table, or events of an event file
	Bytes int64  `json:"bytes"`
}

// Options select what to write.
type Options struct {
	Format string
	Runs   []store.Run // written in this order
	Jobs   []string    // keys, written in this order; event files have no jobs
	Tables []string    // for csv and jsonl, as returned by Tables
	Force  bool        // also write into a folder that is not an export, and keep its contents
}

// Folder writes runs below dir. Each file is written atomically, and replaces the file of an earlier export.
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

// TableFile writes one table to the file at path atomically, and replaces an existing file.
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
