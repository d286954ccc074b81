package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// Reader queries a database that others may be writing. Its methods are safe for concurrent use.
type Reader struct {
	path   string
	db     *sql.DB
	driver string // that opens it

	unpacked string // a temporary folder that holds the database; empty: none
	packed   string // and the file that it was unpacked from
}

// Name is the file that was asked for, as messages have it.
func (r *Reader) Name() string { return cmp.Or(r.packed, r.path) }

// oldestReadable is the oldest schema whose tables hold all that a Reader asks for; what is newer it asks for only
// where it is.
const oldestReadable = 3

// Schemas that brought what not every readable database has: one that nobody wrote to since has not.
const (
	schemaEvals    = 4
	schemaWorkers  = 6
	schemaJobs     = 7
	schemaCommands = 10
	schemaShares   = 11
)

// has tells whether the database is of that schema or a newer one.
func (r *Reader) has(ctx context.Context, schema int) (bool, error) {
	version, err := r.schema(ctx)
	return version >= schema, err
}

// schema is the schema of the database.
func (r *Reader) schema(ctx context.Context) (version int, err error) {
	err = r.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, sqlite.Explain(r.path, err)
}

// OpenReader opens the database at path for reading only. Where there is none the error is ErrNoDatabase.
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	return openReader(ctx, path, sqlite.OwnDriver)
}

func openReader(ctx context.Context, path, driver string) (*Reader, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	missing := &Error{Path: path, Reason: "not there", Try: "start a run with `swarm up`, or name its --home", Err: ErrNoDatabase}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, missing
	}
	if err := sqlite.CheckFileSystem(path, func(error) {}); err != nil {
		return nil, err
	}
	version, err := sqlite.Inspect(ctx, path, driver)
	if err != nil {
		return nil, sqlite.ReadOnly(path, err)
	}
	steps, err := sqlite.Migrations()
	if err != nil {
		return nil, err
	}
	switch {
	case version == 0:
		return nil, missing
	case version < oldestReadable:
		return nil, &Error{Path: path, Reason: fmt.Sprintf("written by an older swarm (schema %d, this one reads %d)", version, len(steps)),
			Try: "start any run with this swarm: that brings it up to date"}
	}
	db, err := sql.Open(driver, sqlite.DSN(path, url.Values{"mode": {"ro"}, "_query_only": {"1"}, "_busy_timeout": {"5000"}}))
	if err != nil {
		return nil, sqlite.Explain(path, err)
	}
	db.SetMaxOpenConns(4)
	return &Reader{path: path, db: db, driver: driver}, nil
}

// Close closes the database.
func (r *Reader) Close() error {
	err := sqlite.Explain(r.path, r.db.Close())
	if r.unpacked != "" {
		err = errors.Join(err, os.RemoveAll(r.unpacked))
	}
	return err
}

// number scans a REAL that may be NULL, which is NaN here.
type number float64

// Scan implements sql.Scanner.
func (n *number) Scan(v any) error {
	var f sql.NullFloat64
	if err := f.Scan(v); err != nil {
		return err
	}
	*n = number(f.Float64)
	if !f.Valid {
		*n = number(math.NaN())
	}
	return nil
}
