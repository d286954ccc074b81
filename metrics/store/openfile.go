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

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// Limits of the unpacked size of a compressed file, because a small file can unpack to an endless stream of zeros. A
// database of this program unpacks to about ten times its compressed size.
const (
	unpackedLimit  = 4 << 30  // bytes
	unpackedLeast  = 64 << 20 // bytes, allowed for a file of any size
	unpackedFactor = 200      // additional bytes per byte of the file
)

// mostUnpacked returns the largest allowed unpacked size of a compressed file.
func mostUnpacked(size int64) int64 {
	if size > unpackedLimit/unpackedFactor {
		return unpackedLimit
	}
	return min(unpackedLimit, unpackedLeast+unpackedFactor*size)
}

// OpenFile opens a database of unknown origin for reading. The file is plain or compressed by gzip, written by Extract
// or any other database of this program. A compressed file is unpacked to a temporary file, which Close removes. The
// error is an *Error if the file is not an undamaged database of this program.
func OpenFile(ctx context.Context, path string) (*Reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	defer file.Close()
	in := bufio.NewReader(file)
	if sqlite.IsPacked(in) {
		info, err := file.Stat()
		if err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
		return openPacked(ctx, path, in, mostUnpacked(info.Size()))
	}
	reader, err := openReader(ctx, path, sqlite.ForeignDriver)
	if err != nil {
		return nil, err
	}
	if err := reader.checkWhole(ctx); err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	return reader, nil
}

// openPacked opens a compressed database. most bounds its unpacked size in bytes. It writes nothing if the content does
// not begin like a database of this program.
func openPacked(ctx context.Context, path string, in io.Reader, most int64) (*Reader, error) {
	stream, err := gzip.NewReader(in)
	if err != nil {
		return nil, &Error{Path: path, Reason: "cannot be unpacked", Err: err}
	}
	content := bufio.NewReader(stream)
	if !sqlite.PeekHeader(content).Ours() {
		return nil, &Error{Path: path, Reason: "not a swarm database"}
	}
	// A separate folder, because SQLite may create files beside the database.
	dir, err := os.MkdirTemp("", "swarm-database-")
	if err != nil {
		return nil, fmt.Errorf("unpack database %s: %w", path, err)
	}
	plain := filepath.Join(dir, "swarm.db")
	if err := unpack(ctx, content, plain, most); err != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		return nil, errors.Join(&Error{Path: path, Reason: "cannot be unpacked", Err: err}, os.RemoveAll(dir))
	}
	reader, err := openReader(ctx, plain, sqlite.ForeignDriver)
	if err != nil {
		return nil, errors.Join(named(err, path), os.RemoveAll(dir))
	}
	reader.unpacked, reader.packed = dir, path
	if err := reader.checkWhole(ctx); err != nil {
		return nil, errors.Join(named(err, path), reader.Close())
	}
	return reader, nil
}

// named sets the path of an *Error to the file that the user gave.
func named(err error, path string) error {
	var own *Error
	if errors.As(err, &own) {
		own.Path = path
	}
	return err
}

// unpack writes the stream to a file. most bounds its size in bytes. It stops when ctx ends.
func unpack(ctx context.Context, from io.Reader, path string, most int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(file, io.LimitReader(&whileWanted{ctx, from}, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("it unpacks to more than %d MB, more than any swarm database of its size", most/1e6)
	}
	return errors.Join(err, file.Close())
}

// whileWanted is a reader that fails when ctx ends.
type whileWanted struct {
	ctx  context.Context
	from io.Reader
}

func (r *whileWanted) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.from.Read(p)
}

// checkWhole rejects a database that is damaged or has another schema than this program's. It compares the schema
// first, because the damage check executes expressions of the schema.
func (r *Reader) checkWhole(ctx context.Context) error {
	if err := sqlite.CheckForeign(ctx, r.db, r.path, "main"); err != nil {
		return sqlite.Explain(r.path, err)
	}
	var result string
	if err := r.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&result); err != nil {
		return sqlite.Explain(r.path, err)
	}
	if result != "ok" {
		return &Error{Path: r.path, Reason: "damaged", Err: errors.New(strings.Join(strings.Fields(result), " "))}
	}
	return nil
}

// Reads reports whether path is the database that r reads, under any name.
func (r *Reader) Reads(path string) bool {
	own, err := os.Stat(r.path)
	if err != nil {
		return false
	}
	other, err := os.Stat(path)
	return err == nil && os.SameFile(own, other)
}
