// Package sqlite has the parts of metrics/store that depend on SQLite: drivers, schema and migrations, checks of file
// systems, and texts for SQLite's errors. It is independent of the meaning of tables, and must not import
// metrics/store.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/mattn/go-sqlite3"
)

// ApplicationID marks this program's files in SQLite's header: "SWRM".
const ApplicationID = 0x5357524D

//go:embed migrations/*.sql
var scripts embed.FS

// Migrations returns the SQL of version i+1 at index i.
func Migrations() ([]string, error) {
	names, err := fs.Glob(scripts, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var steps []string
	for i, name := range names {
		if want := fmt.Sprintf("%03d_", i+1); filepath.Base(name)[:4] != want {
			return nil, fmt.Errorf("migration %s: expected number %s", name, want)
		}
		text, err := scripts.ReadFile(name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, string(text))
	}
	return steps, nil
}

// DSN returns the address of the database at path with options of SQLite and of the driver.
func DSN(path string, options url.Values) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + options.Encode()
}

// Inspect reads path without changing it. It returns the schema version, or 0 for a missing or empty file. It rejects a
// file of another program or of a newer version.
func Inspect(ctx context.Context, path, driver string) (int, error) {
	return inspect(ctx, path, driver, "ro")
}

// InspectOwn is Inspect for a file that is about to be written. If a crash interrupted the transaction that created the
// file, it rolls that transaction back first, because the file would be unreadable.
func InspectOwn(ctx context.Context, path string) (int, error) {
	version, err := Inspect(ctx, path, OwnDriver)
	var sq sqlite3.Error
	if errors.As(err, &sq) && (sq.ExtendedCode == sqlite3.ErrReadonlyRollback || sq.ExtendedCode == sqlite3.ErrReadonlyRecovery) {
		return inspect(ctx, path, OwnDriver, "rw")
	}
	return version, err
}

// inspect is Inspect with one of SQLite's open modes.
func inspect(ctx context.Context, path, driver, mode string) (int, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("database %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return 0, &Error{Path: path, Reason: "not a file", Try: "choose another --home"}
	}
	db, err := sql.Open(driver, DSN(path, url.Values{"mode": {mode}, "_busy_timeout": {"5000"}}))
	if err != nil {
		return 0, Explain(path, err)
	}
	defer db.Close()
	version, err := ownVersion(ctx, db, path)
	if err != nil {
		return 0, Explain(path, err)
	}
	return version, nil
}

// querier is the part of sql.DB and sql.Tx that reads the schema version.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ownVersion returns the schema version, or an error if the database cannot be used.
func ownVersion(ctx context.Context, q querier, path string) (int, error) {
	steps, err := Migrations()
	if err != nil {
		return 0, err
	}
	var id, version, tables int
	for query, into := range map[string]*int{
		"PRAGMA application_id":              &id,
		"PRAGMA user_version":                &version,
		"SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := q.QueryRowContext(ctx, query).Scan(into); err != nil {
			return 0, err
		}
	}
	switch {
	case id == 0 && version == 0 && tables == 0:
		return 0, nil
	case id != ApplicationID:
		return 0, &Error{Path: path, Reason: "not a swarm database", Try: "choose another --home, or move that file away"}
	case version > len(steps):
		return 0, &Error{Path: path, Reason: fmt.Sprintf("written by a newer swarm (schema %d, this one knows %d)", version, len(steps)),
			Try: "update swarm, or choose another --home"}
	}
	return version, nil
}

// Migrate updates the schema to the newest version, with one transaction per step. Another process may do so at the
// same time.
func Migrate(ctx context.Context, db *sql.DB, path string) error {
	steps, err := Migrations()
	if err != nil {
		return err
	}
	for {
		done, err := MigrateOne(ctx, db, path, steps)
		if done || err != nil {
			return err
		}
	}
}

// MigrateOne applies the next of the steps in a transaction. done reports that the schema has all steps.
func MigrateOne(ctx context.Context, db *sql.DB, path string, steps []string) (done bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, Explain(path, err)
	}
	defer tx.Rollback() //nolint:errcheck // no effect after a commit
	version, err := ownVersion(ctx, tx, path)
	if err != nil {
		return false, Explain(path, err)
	}
	if version == len(steps) {
		return true, nil
	}
	script := steps[version] + fmt.Sprintf("\nPRAGMA application_id = %d; PRAGMA user_version = %d;", ApplicationID, version+1)
	if _, err := tx.ExecContext(ctx, script); err != nil {
		return false, Explain(path, fmt.Errorf("migrate to schema %d: %w", version+1, err))
	}
	if err := tx.Commit(); err != nil {
		return false, Explain(path, fmt.Errorf("migrate to schema %d: %w", version+1, err))
	}
	return false, nil
}
