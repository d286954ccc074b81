package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// tend notes that the attempts begun here are alive and keeps the write-ahead log short. Its error is one that no retry
// mends; others show at the next write, which does retry.
func (s *Store) tend() error {
	if err := s.moved(); err != nil {
		return err
	}
	if runs := s.pulse.runs(); len(runs) > 0 {
		if err := s.tab.see(runs); err != nil {
			return nil //nolint:nilerr // see above
		}
	}
	s.shorten()
	return nil
}

// moved tells whether the file under the database's name is another one than was opened: SQLite would go on writing
// where nobody ever looks.
func (s *Store) moved() error {
	info, err := os.Stat(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil //nolint:nilerr // it may be a passing trouble of the disk
	}
	if err == nil && os.SameFile(info, s.file) {
		return nil
	}
	return s.fail(&Error{Path: s.path, Reason: "moved or deleted while it was written",
		Try: "put it back; a resume restores what nodes did since"})
}

// fail keeps an error as the newest write's.
func (s *Store) fail(err error) error {
	s.note(err)
	s.opts.Warn(err)
	return err
}

// shorten empties the write-ahead log into the database once it has grown. SQLite does so by itself only where no
// reader happens to be in the middle of something, and with many that poll one always is; here readers are waited for.
func (s *Store) shorten() {
	info, err := os.Stat(s.path + "-wal")
	if err != nil || info.Size() <= s.opts.WALLimit {
		return
	}
	// A reader that takes longer holds the log back: that costs disk space, not data, and the next tick tries again.
	ctx := context.Background()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	for _, q := range []string{
		"PRAGMA busy_timeout = 500", "PRAGMA wal_checkpoint(TRUNCATE)", fmt.Sprintf("PRAGMA busy_timeout = %d", s.opts.BusyTimeout.Milliseconds()),
	} {
		_, _ = conn.ExecContext(ctx, q)
	}
}

// see notes that runs are alive, in one transaction.
func (t *tables) see(runs []string) error {
	tx, done, err := t.begin()
	if err != nil {
		return err
	}
	defer done()
	for _, run := range runs {
		if err := tx.see(run); err != nil {
			return err
		}
	}
	return tx.tx.Commit()
}
