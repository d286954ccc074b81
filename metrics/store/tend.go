package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// tend records heartbeats of the attempts and jobs started here and keeps the write-ahead log short. It returns only
// errors that a retry cannot fix. The next write reports any other error, and retries.
func (s *Store) tend() error {
	if err := s.moved(); err != nil {
		return err
	}
	if names := s.pulse.names(); len(names) > 0 {
		if err := s.tab.see(names); err != nil {
			return nil //nolint:nilerr // see above
		}
	}
	s.shorten()
	return nil
}

// moved reports whether the database's path refers to another file than the one opened. SQLite would continue to write
// to a file that no reader sees.
func (s *Store) moved() error {
	info, err := os.Stat(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil //nolint:nilerr // it may be a passing trouble of the disk
	}
	if err == nil && os.SameFile(info, s.file) {
		return nil
	}
	return s.fail(&Error{Path: s.path, Reason: "moved or deleted while it was written",
		Try: "put it back; a resume restores the rounds since then"})
}

// fail records an error as that of the newest write.
func (s *Store) fail(err error) error {
	s.note(err)
	s.opts.Warn(err)
	return err
}

// shorten checkpoints the write-ahead log when it exceeds its limit. SQLite's automatic checkpoint succeeds only if no
// reader is active, and with many polling readers one always is. shorten therefore waits for readers.
func (s *Store) shorten() {
	info, err := os.Stat(s.path + "-wal")
	if err != nil || info.Size() <= s.opts.WALLimit {
		return
	}
	// A slow reader can prevent the checkpoint. This costs disk space but no data, and the next tick tries again.
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

// see records heartbeats of runs and jobs in one transaction.
func (t *tables) see(names []string) error {
	tx, done, err := t.begin()
	if err != nil {
		return err
	}
	defer done()
	for _, name := range names {
		if err := tx.see(name); err != nil {
			return err
		}
	}
	return tx.tx.Commit()
}
