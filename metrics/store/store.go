// Package store keeps all measurements in one SQLite file. It owns the schema and migrations, the single writer, and
// the queries of all readers. It accepts events (metrics/event) and run descriptions, and returns rows. It maintains
// sums and computes no other statistics. It uses no configuration types, and must import no package of this module
// except metrics/event, its own subpackages and the leaves in internal.
//
// A Store writes. Several processes may open a Store on the same file; each transaction is immediate and waits for the
// others. A Reader never writes, and any number of Readers may be open on the same host at the same time.
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
	MaxBatch       int           // events per transaction, default 1000
	MaxDelay       time.Duration // an event waits at most this long for its transaction, default 0.5 s
	Queue          int           // queued events before Record blocks, default 16384 (some 10 MB): enough for many minutes of a swarm of 32 nodes
	BusyTimeout    time.Duration // how long a write waits for another process's write before it fails, default 10 s
	RetryDelay     time.Duration // first pause after a failed write, doubled up to 30 s; default 0.5 s
	RetryFor       time.Duration // how long failed writes are retried, default 10 min
	MemoryInterval time.Duration // one memory row per node and interval, whole seconds, default 10 s
	SeenInterval   time.Duration // interval of heartbeats of running attempts and jobs, and of checks of the write-ahead log, default 5 s
	WALLimit       int64         // size of the write-ahead log, in bytes, above which it is checkpointed, default 16 MiB

	// Warn receives problems that a run survives: a file system that may be unsuitable, the first of a series of failed
	// writes, a *Recovered for the first write that succeeds after them, and rejected events. Open and the writer's
	// goroutine call it. It must not block, and may be nil.
	Warn func(error)

	elapsed func() time.Duration // since a fixed moment; nil: this machine's monotonic clock
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
	file  os.FileInfo // the database's file when it was opened

	queue   chan *item    // pointers, so that an empty queue uses little memory
	closing chan struct{} // closed by Close; shortens retries
	failed  chan struct{} // closed when the writer gives up
	done    chan struct{} // closed when the writer has returned

	sending sync.RWMutex // held for reading while sending to queue, for writing to close it
	closed  bool

	mu       sync.Mutex // never held while waiting
	runs     map[string]bool
	writeErr error // error of the newest write, nil if it succeeded

	closeOnce sync.Once
	closeErr  error
}

// Open opens the database at path for writing, creates it and its folder (mode 0700) if missing, migrates it, and
// starts its writer, which runs until Close. It returns an *Error for a file of another program or of a newer version,
// and for a network or read-only file system.
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

// keepPrivate creates the database's file if it is missing, and makes it readable by its owner only, because it holds
// typed commands. SQLite gives the files beside it the same mode. It never opens an existing file, because closing it
// would drop this process's SQLite locks.
func keepPrivate(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return nil // another process has just created it
		}
		if err != nil {
			return err
		}
		return file.Close()
	case err != nil:
		return err
	case info.Mode().Perm()&0o077 != 0:
		_ = os.Chmod(path, info.Mode().Perm()&^0o077) // may fail for another user's file
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
	// Without a limit, the log would keep its largest size after a checkpoint.
	if _, err := s.db.ExecContext(ctx, fmt.Sprintf("PRAGMA journal_size_limit = %d", s.opts.WALLimit)); err != nil {
		return sqlite.Explain(s.path, err)
	}
	s.tab, err = prepareTables(ctx, s.db, s.opts, s.pulse)
	return sqlite.Explain(s.path, err)
}

// Path returns the database's absolute path.
func (s *Store) Path() string { return s.path }

// Failed is closed when the writer has given up. Nothing is recorded afterwards, and Err returns the reason. A run
// should then shut down gracefully.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err returns the error of the newest write, or nil if it succeeded. While it is not nil, the writer is retrying or has
// given up.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeErr
}

// Close writes all queued events, checkpoints the write-ahead log and closes the database. If the last write fails, the
// error says how many events were lost. A second Close returns the same error.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	close(s.closing) // unblocks every Record that waits for the queue
	s.sending.Lock()
	s.closed = true
	close(s.queue)
	s.sending.Unlock()
	<-s.done
	err := s.Err()
	if err == nil {
		_ = s.tab.see(s.pulse.names()) // a last heartbeat; not needed by an attempt that has an end
		// Readers may delay the checkpoint, which costs disk space but no data.
		_, err = s.db.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return sqlite.Explain(s.path, errors.Join(err, s.tab.close(), s.db.Close()))
}
