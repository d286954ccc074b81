package sqlite

import (
	"context"
	"database/sql"
)

// Query runs q and calls scan for each row.
func Query(ctx context.Context, db Rows, scan func(*sql.Rows) error, q string, args ...any) error {
	rows, err := db.QueryContext(ctx, q, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Rows is the part of sql.DB, sql.Conn and sql.Tx that Query needs.
type Rows interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
