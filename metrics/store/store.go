// Package store keeps all measurements in one SQLite file: its schema and migrations, the one writer, and the queries
// that others read it with. It takes events (metrics/event) and run descriptions, and returns rows; it computes no
// statistics beyond the sums it maintains, knows no configuration types, and must not import any other package of ours
// but the leaves in internal.
//
// A Store writes. Several processes may have one open on the same file; each transaction is immediate and waits its
// turn. A Reader never writes, and may be open anywhere on the same host at the same time.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// Options of a Store. The zero value is ready for use.
type Options struct {
	MaxBatch       int           // events a transaction, default 1000
	MaxDelay       time.Duration // an event waits at most this long for its transaction, default 0.5 s
	Queue          int           // events that wait before Record blocks, default 16384 (some 10 MB): many minutes of a swarm of 32
	BusyTimeout    time.Duration // a write waits this long for another process's before it counts as failed, default 10 s
	RetryDelay     time.Duration // first pause after a failed write, doubled up to 30 s; default 0.5 s
	RetryFor       time.Duration // failed writes are tried again for this long, default 10 min
	MemoryInterval time.Duration // one memory row a node and interval, whole seconds, default 10 s
	SeenInterval   time.Duration // how often a running attempt is noted as alive and the write-ahead log looked after, default 5 s
	WALLimit       int64         // bytes above which the write-ahead log is emptied into the database, default 16 MiB

	// Warn hears of what a run survives: a doubtful file system, the first of some failed writes and (a *Recovered) the
	// first that succeeds after them, an event that was refused. It is called from Open and from the writer's
	// goroutine, must not block, and may be nil.
	Warn func(error)

	elapsed func() time.Duration // since some fixed moment; nil: by this machine's clock that nobody sets
}

func (o Options) withDefaults() Options {
	defaultTo(&o.MaxBatch, 1000)
	defaultTo(&o.MaxDelay, 500*time.Millisecond)
	defaultTo(&o.Queue, 16384)
	defaultTo(&o.BusyTimeout, 10*time.Second)
	defaultTo(&o.RetryDelay, 500*time.Millisecond)
	defaultTo(&o.RetryFor, 10*time.Minute)
	defaultTo(&o.MemoryInterval, 10*time.Second)
	defaultTo(&o.SeenInterval, 5*time.Second)
	defaultTo(&o.WALLimit, 16<<20)
	if o.elapsed == nil {
		o.elapsed = sinceNow()
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	return o
}

func defaultTo[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Store is the writer of one database. Its methods are safe for concurrent use.
type Store struct {
	path string
	db   *sql.DB
	opts Options
	tab  *tables

	pulse *pulse
	file  os.FileInfo // of the database when it was opened

	queue   chan *item    // which cost memory only while they wait
	closing chan struct{} // closed by Close: retries become short
	failed  chan struct{} // closed when the writer gives up
	done    chan struct{} // closed when the writer has returned

	sending sync.RWMutex // held for reading while sending to queue, for writing to close it
	closed  bool

	mu       sync.Mutex // never held while waiting
	runs     map[string]bool
	writeErr error // newest failed write, nil after one that succeeded

	closeOnce sync.Once
	closeErr  error
}

// Open opens the database at path for writing, creates it and its folder (mode 0700) where missing, migrates it, and
// starts its writer, which runs until Close. It refuses, with an *Error, a file that isn't ours, one of a newer
// version, and a network's or a read-only file system.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := files.MakeFolder(filepath.Dir(path), 0o700); err != nil {
		return nil, sqlite.ReadOnly(path, fmt.Errorf("open database: %w", err))
	}
	if err := sqlite.CheckFileSystem(path, opts.Warn); err != nil {
		return nil, err
	}
	if _, err := sqlite.InspectOwn(ctx, path); err != nil {
		return nil, sqlite.ReadOnly(path, err)
	}
	if err := keepPrivate(path); err != nil {
		return nil, sqlite.ReadOnly(path, fmt.Errorf("open database: %w", err))
	}
	db, err := sql.Open(sqlite.OwnDriver, sqlite.DSN(path, url.Values{
		"_txlock": {"immediate"}, "_journal_mode": {"WAL"}, "_synchronous": {"NORMAL"}, "_foreign_keys": {"on"},
		"_busy_timeout": {strconv.FormatInt(opts.BusyTimeout.Milliseconds(), 10)},
	}))
	if err != nil {
		return nil, sqlite.Explain(path, err)
	}
	db.SetMaxOpenConns(1)
	s := &Store{
		path: path, db: db, opts: opts,
		queue: make(chan *item, opts.Queue), closing: make(chan struct{}), failed: make(chan struct{}), done: make(chan struct{}),
		runs: map[string]bool{}, pulse: newPulse(opts.elapsed),
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(sqlite.ReadOnly(path, err), db.Close())
	}
	if s.file, err = os.Stat(path); err != nil {
		return nil, errors.Join(sqlite.Explain(path, err), s.tab.close(), db.Close())
	}
	go s.write()
	return s, nil
}

// keepPrivate makes the database's file where it is missing, and lets only its owner read it: it holds what was typed.
// SQLite gives the files beside it the same mode. A file that is there is never opened: closing it would drop SQLite's
// locks of this process.
func keepPrivate(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return nil // another process has made it just now
		}
		if err != nil {
			return err
		}
		return file.Close()
	case err != nil:
		return err
	case info.Mode().Perm()&0o077 != 0:
		_ = os.Chmod(path, info.Mode().Perm()&^0o077) // it may be another user's
	}
	return nil
}

func (s *Store) prepare(ctx context.Context) error {
	if err := sqlite.Migrate(ctx, s.db, s.path); err != nil {
		return err
	}
	rows, err := s.db.QueryContext(ctx, "SELECT run FROM runs")
	if err != nil {
		return sqlite.Explain(s.path, err)
	}
	defer rows.Close()
	for rows.Next() {
		var run string
		if err := rows.Scan(&run); err != nil {
			return sqlite.Explain(s.path, err)
		}
		s.runs[run] = true
	}
	if err := rows.Err(); err != nil {
		return sqlite.Explain(s.path, err)
	}
	if err := rows.Close(); err != nil {
		return sqlite.Explain(s.path, err)
	}
	// The log shrinks to this once it has been emptied; without, it keeps the size of its worst hour.
	if _, err := s.db.ExecContext(ctx, fmt.Sprintf("PRAGMA journal_size_limit = %d", s.opts.WALLimit)); err != nil {
		return sqlite.Explain(s.path, err)
	}
	s.tab, err = prepareTables(ctx, s.db, s.opts, s.pulse)
	return sqlite.Explain(s.path, err)
}

// Path returns the database's absolute path.
func (s *Store) Path() string { return s.path }

// Failed is closed when the writer has given up: nothing is recorded any more, and Err says why. A run should stop in
// order then.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err returns why the newest write failed, nil if it didn't; while it is set the writer retries or has given up.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeErr
}

// Close writes what is queued, empties the write-ahead log into the database and closes it. If the last write fails it
// says how many events were lost. A second Close returns the same.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	close(s.closing) // frees every Record that waits for room
	s.sending.Lock()
	s.closed = true
	close(s.queue)
	s.sending.Unlock()
	<-s.done
	err := s.Err()
	if err == nil {
		_ = s.tab.see(s.pulse.runs()) // a note for the record; an attempt that has its end doesn't need it
		// Readers may hold the log back: that costs disk space, not data.
		_, err = s.db.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return sqlite.Explain(s.path, errors.Join(err, s.tab.close(), s.db.Close()))
}
