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

// FormatSQLite is a database with the data that statistics of the runs need, as written by store.Reader.Extract. It is
// one file, compressed by gzip if its name ends in .gz.
const FormatSQLite = "sqlite"

// Database writes runs to a database file at path, atomically. It replaces an existing file if that is such an export,
// and any other file only with force. It never replaces the database that it reads. Equal runs produce equal bytes.
func Database(ctx context.Context, reader *store.Reader, path string, runs []store.Run, force bool) ([]File, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("export: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("export: %w", &fs.PathError{Op: "write", Path: path, Err: errors.New("it exists and is not a file")})
	case reader.Reads(path), !force && !store.IsExtract(path):
		return nil, &ForeignError{File: path}
	}
	// A separate folder beside the file, so that the rename stays on one file system.
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

// compress writes a gzip file without time and name, so that equal exports have equal bytes.
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

// settle syncs a finished file, moves it to its place, and returns its size.
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
