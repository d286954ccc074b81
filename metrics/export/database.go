package export

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// FormatSQLite is a database of its own with what statistics of the runs need, as store.Reader.Extract writes it: one
// file, compressed by gzip where its name ends in .gz.
const FormatSQLite = "sqlite"

// Database writes runs to a database file at path, whole or not at all. A file that is there is replaced where it is
// such an export, else only with force; never is it the database that is read. Equal runs make equal bytes.
func Database(ctx context.Context, reader *store.Reader, path string, runs []store.Run, force bool) ([]File, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("export: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("export: %w", &fs.PathError{Op: "write", Path: path, Err: errors.New("it is there and no file")})
	case reader.Reads(path), !force && !store.IsExtract(path):
		return nil, &ForeignError{File: path}
	}
	// A folder of its own beside the file: a rename stays on one file system.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".swarm-export-")
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "swarm.db")
	rows, err := reader.Extract(ctx, made, runKeys(runs))
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(strings.ToLower(path), ".gz") {
		if err := compress(made, made+".gz"); err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		made += ".gz"
	}
	size, err := settle(made, path)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return []File{{filepath.Base(path), rows, size}}, nil
}

// compress writes a file's bytes to another, without a time or a name, which would differ from one export to the next.
func compress(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	packed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return errors.Join(err, out.Close())
	}
	_, err = io.Copy(packed, in)
	return errors.Join(err, packed.Close(), out.Close())
}

// settle puts a finished file in its place, and returns its size.
func settle(from, to string) (int64, error) {
	file, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	return info.Size(), os.Rename(from, to)
}
