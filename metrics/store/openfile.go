package store

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// unpackedLimit is how large a database may be that a compressed file holds, in bytes: a small file can hold endless zeros.
const unpackedLimit = 4 << 30

// gzipMagic is what a gzip file begins with.
const gzipMagic = "\x1f\x8b"

var errUnpackedSize = errors.New("it holds more than 4 GiB")

// OpenFile opens a database for reading that may come from elsewhere, plain or compressed by gzip: one that Extract or CopyTo wrote, or any
// other. It is unpacked to a temporary file, which Close removes. What isn't a whole database of ours is an *Error.
func OpenFile(ctx context.Context, path string) (*Reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	defer file.Close()
	in := bufio.NewReader(file)
	if magic, err := in.Peek(len(gzipMagic)); err == nil && string(magic) == gzipMagic {
		return openPacked(ctx, path, in)
	}
	reader, err := OpenReader(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := reader.checkWhole(ctx); err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	return reader, nil
}

// openPacked opens a compressed database.
func openPacked(ctx context.Context, path string, in io.Reader) (*Reader, error) {
	// A folder of its own: SQLite may put files beside the database.
	dir, err := os.MkdirTemp("", "swarm-database-")
	if err != nil {
		return nil, fmt.Errorf("unpack database %s: %w", path, err)
	}
	plain := filepath.Join(dir, "swarm.db")
	if err := unpack(in, plain); err != nil {
		return nil, errors.Join(&Error{Path: path, Reason: "cannot be unpacked", Err: err}, os.RemoveAll(dir))
	}
	reader, err := OpenReader(ctx, plain)
	if err != nil {
		return nil, errors.Join(named(err, path), os.RemoveAll(dir))
	}
	reader.unpacked = dir
	if err := reader.checkWhole(ctx); err != nil {
		return nil, errors.Join(named(err, path), reader.Close())
	}
	return reader, nil
}

// named has an *Error name the file that the user gave.
func named(err error, path string) error {
	var own *Error
	if errors.As(err, &own) {
		own.Path = path
	}
	return err
}

// unpack writes what a gzip stream holds to a file.
func unpack(from io.Reader, path string) error {
	stream, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(file, io.LimitReader(stream, unpackedLimit+1))
	if err == nil && n > unpackedLimit {
		err = errUnpackedSize
	}
	return errors.Join(err, file.Close())
}

// checkWhole refuses a database that is damaged, or that runs more than tables and indexes: views and triggers of a stranger's.
func (r *Reader) checkWhole(ctx context.Context) error {
	var result string
	if err := r.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&result); err != nil {
		return explain(r.path, err)
	}
	if result != "ok" {
		return &Error{Path: r.path, Reason: "damaged", Err: errors.New(strings.Join(strings.Fields(result), " "))}
	}
	var strange int
	err := r.db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema
WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'`).Scan(&strange)
	if err != nil {
		return explain(r.path, err)
	}
	if strange > 0 {
		return &Error{Path: r.path, Reason: "not a swarm database: it has views, triggers or virtual tables"}
	}
	return nil
}

// Reads tells whether path is the database that r reads, by whatever name.
func (r *Reader) Reads(path string) bool {
	own, err := os.Stat(r.path)
	if err != nil {
		return false
	}
	other, err := os.Stat(path)
	return err == nil && os.SameFile(own, other)
}
