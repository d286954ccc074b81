package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mattn/go-sqlite3"
)

// CopyTo writes a copy of the database to a file, as it is at one moment, while others go on writing to it. The file must not be there.
// Where it fails it leaves none.
func (r *Reader) CopyTo(ctx context.Context, path string) (err error) {
	defer func() {
		if err != nil {
			err = explain(r.path, fmt.Errorf("copy to %s: %w", path, err))
		}
	}()
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			os.Remove(path) // half a copy
		}
	}()
	to, err := sql.Open(ownDriver, dsn(path, nil))
	if err != nil {
		return err
	}
	defer to.Close()
	target, err := to.Conn(ctx)
	if err != nil {
		return err
	}
	defer target.Close()
	source, err := r.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer source.Close()
	return target.Raw(func(into any) error {
		return source.Raw(func(from any) error {
			backup, err := into.(*sqlite3.SQLiteConn).Backup("main", from.(*sqlite3.SQLiteConn), "main")
			if err != nil {
				return err
			}
			_, err = backup.Step(-1) // all of it: between two steps a writer would begin it anew
			return errors.Join(err, backup.Finish())
		})
	})
}
