package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// RemoveRun deletes a run and all its rows in one transaction. The file does not shrink, but later runs reuse the
// space; freed is its number of bytes. An unknown run is ErrNotFound. The caller must ensure that the run is not
// active.
func (s *Store) RemoveRun(ctx context.Context, run string) (freed int64, err error) {
	defer func() {
		if err != nil {
			err = sqlite.Explain(s.path, fmt.Errorf("remove run %s: %w", run, err))
		}
	}()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() //nolint:errcheck // no effect after a commit
	before, err := freeBytes(ctx, tx)
	if err != nil {
		return 0, err
	}
	result, err := tx.ExecContext(ctx, "DELETE FROM runs WHERE run = ?", run) // foreign keys delete the rows of other tables
	if err != nil {
		return 0, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return 0, errors.Join(err, ErrNotFound)
	}
	after, err := freeBytes(ctx, tx)
	if err != nil {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	delete(s.runs, run)
	s.mu.Unlock()
	return max(0, after-before), nil
}

// freeBytes returns the unused bytes of the database's file.
func freeBytes(ctx context.Context, tx *sql.Tx) (int64, error) {
	var bytes int64
	err := tx.QueryRowContext(ctx, "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size").Scan(&bytes)
	return bytes, err
}
