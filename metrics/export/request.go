package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Request holds the command's flags.
type Request struct {
	Format string
	Out    string // a folder, a file, or - for stdout
	Tables []string
	Force  bool

	file bool // Out is the file of a single table; set by Check
}

// ToFile reports whether --out names a file rather than a folder.
func (r *Request) ToFile() bool {
	return r.OneTable() && (r.Out == "-" || strings.EqualFold(filepath.Ext(r.Out), "."+r.Format))
}

// OneTable reports whether a single table is written as text.
func (r *Request) OneTable() bool {
	return len(r.Tables) == 1 && (r.Format == FormatCSV || r.Format == FormatJSONL)
}

// namesFile reports whether --out looks like a file although only a folder can be written. A folder named rounds.csv
// would be a mistake.
func (r *Request) namesFile() bool {
	if r.ToFile() || r.Format == FormatSQLite {
		return false
	}
	if info, err := os.Stat(r.Out); err == nil && info.IsDir() {
		return false
	}
	return slices.Contains([]string{".csv", ".json", ".jsonl"}, strings.ToLower(filepath.Ext(r.Out)))
}

// written names the kind of output.
func (r *Request) written() string {
	switch r.Format {
	case FormatSQLite:
		return "database"
	case FormatTensorBoard:
		return "event files"
	}
	return "tables"
}

// elsewhere returns a command with a place to write to.
func (r *Request) elsewhere() string {
	switch r.Format {
	case FormatSQLite:
		return "swarm export --format sqlite --out swarm-export.db.gz"
	case FormatCSV:
		return "swarm export --out swarm-export"
	}
	return "swarm export --format " + r.Format + " --out swarm-export"
}

// Check rejects requests that cannot be written. It replaces aliases of tables by their full names.
func (r *Request) Check() error {
	r.file = r.ToFile()
	switch {
	case !slices.Contains(Formats(), r.Format):
		return &configs.Error{Key: "format", Value: r.Format, Allowed: strings.Join(Formats(), ", ")}
	case r.Format == FormatSQLite && len(r.Tables) > 0:
		return fail.Usage(errors.New("--table needs csv or jsonl: format sqlite has a fixed set of tables"), "swarm export --format sqlite without it")
	case r.Format == FormatTensorBoard && len(r.Tables) > 0:
		return fail.Usage(errors.New("--table needs csv or jsonl: format tensorboard has no tables"), "swarm export --format tensorboard without it")
	case r.Out == "":
		return fail.Usage(fmt.Errorf("--out is missing: name the place for the %s", r.written()), r.elsewhere())
	case r.Out == "-" && !r.ToFile():
		return fail.Usage(errors.New("--out - writes only one table, as csv or jsonl"), "swarm export --table rounds --out -")
	case r.namesFile():
		return fail.Usage(fmt.Errorf("--out %s names a file, which holds one table and ends in its format's name, %s", r.Out, r.Format),
			"--table rounds --out rounds."+strings.Replace(r.Format, FormatTensorBoard, "csv", 1)+", or --out FOLDER")

	}
	tables, err := Tables(r.Tables)
	if err != nil {
		return &configs.Error{Key: "table", Value: strings.Join(r.Tables, ","), Allowed: strings.Join(store.Tables(), ", ") + ", tasks, questions"}
	}
	r.Tables = tables
	return nil
}

// Write writes the runs and jobs after Check. With Out "-" it writes to stdout.
func (r *Request) Write(ctx context.Context, reader *store.Reader, stdout io.Writer, runs []store.Run, jobs []string) (files []File, err error) {
	if r.Out == "-" {
		_, err := Table(ctx, reader, stdout, r.Format, r.Tables[0], runs, jobs...)
		return nil, err
	}
	switch {
	case r.file:
		files, err = TableFile(ctx, reader, r.Out, r.Format, r.Tables[0], runs, jobs...)
	case r.Format == FormatSQLite:
		files, err = Database(ctx, reader, r.Out, runs, r.Force)
	default:
		files, err = Folder(ctx, reader, r.Out, Options{Format: r.Format, Runs: runs, Jobs: jobs, Tables: r.Tables, Force: r.Force})
	}
	var foreign *ForeignError
	var reason *fs.PathError
	switch {
	case errors.As(err, &foreign) && foreign.File != "":
		return nil, fail.Hint(err, "another --out, or --force to replace it; the database that is read is never replaced")
	case errors.As(err, &foreign):
		return nil, fail.Hint(err, "another --out, or --force to write beside the existing files")
	case errors.As(err, &reason):
		return nil, fail.Hint(fmt.Errorf("can't write %s: %w", r.Out, reason.Err), "another --out")
	}
	return files, err
}
