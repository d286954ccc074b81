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

// Reader queries a database while other processes may write to it. Its methods are safe for concurrent use.
type Reader struct {
	path   string
	db     *sql.DB
	driver string // driver that opened it

	unpacked string // temporary folder with the unpacked database; empty: none
	packed   string // file from which it was unpacked
}

// Name returns the file that the user gave, for messages.
func (r *Reader) Name() string { return cmp.Or(r.packed, r.path) }

// oldestReadable is the oldest schema that a Reader accepts. A Reader tests for features of newer schemas before it
// uses them.
const oldestReadable = 3

// Schemas that introduced features. A database that no newer program has opened for writing lacks them.
const (
	schemaEvals    = 4
	schemaWorkers  = 6
	schemaJobs     = 7
	schemaCommands = 10
	schemaShares   = 11
	schemaJobSeen  = 14
)

// has reports whether the database has at least that schema.
func (r *Reader) has(ctx context.Context, schema int) (bool, error) {
	version, err := r.schema(ctx)
	return version >= schema, err
}

// schema returns the schema version of the database.
func (r *Reader) schema(ctx context.Context) (version int, err error) {
	err = r.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, sqlite.Explain(r.path, err)
}

// OpenReader opens the database at path read-only. It returns ErrNoDatabase if there is none.
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	return openReader(ctx, path, sqlite.OwnDriver)
}

func openReader(ctx context.Context, path, driver string) (*Reader, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	missing := &Error{Path: path, Reason: "not found", Try: "start a run with `swarm up`, or name its --home", Err: ErrNoDatabase}
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
			Try: "start any run with this swarm, which updates the schema"}
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

// number scans a REAL that may be NULL. NULL becomes NaN.
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
