package dashboard

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// database is a file that may not exist yet, or that may be replaced.
type database struct {
	path string

	mu     sync.Mutex
	reader *store.Reader // nil: not open
	file   os.FileInfo   // file that reader reads
	err    error         // why it could not be opened
	tried  time.Time
	closed bool
}

// retry is the pause before the next attempt to open a database.
const retry = time.Second

// open returns a reader of the file that is currently at the path. The reader stays open. The error is
// store.ErrNoDatabase while there is no file.
func (d *database) open(ctx context.Context) (*store.Reader, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, store.ErrClosed
	}
	file, statErr := os.Stat(d.path)
	if d.reader != nil {
		if statErr == nil && os.SameFile(file, d.file) {
			return d.reader, nil
		}
		d.reader.Close() // waits for running queries
		d.reader, d.file, d.tried = nil, nil, time.Time{}
	}
	if !d.tried.IsZero() && time.Since(d.tried) < retry && !errors.Is(d.err, store.ErrNoDatabase) {
		return nil, d.err
	}
	d.tried = time.Now()
	if d.reader, d.err = store.OpenReader(ctx, d.path); d.err != nil {
		d.reader = nil
		if ctx.Err() != nil {
			d.tried = time.Time{} // caused by the caller's context, not by the database
		}
		return nil, d.err
	}
	d.file = file
	if d.file == nil {
		d.file, _ = os.Stat(d.path)
	}
	return d.reader, nil
}

func (d *database) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.reader == nil {
		return nil
	}
	err := d.reader.Close()
	d.reader = nil
	return err
}

// mark identifies a state of the database's files. Every write changes it.
type mark struct {
	size, logSize   int64
	written, logged time.Time
}

// mark returns the current mark, or zero if there is no database.
func (d *database) mark() mark {
	var m mark
	if file, err := os.Stat(d.path); err == nil {
		m.size, m.written = file.Size(), file.ModTime()
	}
	if log, err := os.Stat(d.path + "-wal"); err == nil {
		m.logSize, m.logged = log.Size(), log.ModTime()
	}
	return m
}
