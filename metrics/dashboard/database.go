package dashboard

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// database is a file that may not be there yet, or be replaced by another.
type database struct {
	path string

	mu     sync.Mutex
	reader *store.Reader // nil: not open
	file   os.FileInfo   // that reader reads
	err    error         // why it isn't open
	tried  time.Time
	closed bool
}

// retry is how long a database that could not be opened is left alone.
const retry = time.Second

// open returns a reader of what is at the path now. It stays open; the error is store.ErrNoDatabase while there is
// none.
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
		d.reader.Close() // waits for the queries that run
		d.reader, d.file, d.tried = nil, nil, time.Time{}
	}
	if !d.tried.IsZero() && time.Since(d.tried) < retry && !errors.Is(d.err, store.ErrNoDatabase) {
		return nil, d.err
	}
	d.tried = time.Now()
	if d.reader, d.err = store.OpenReader(ctx, d.path); d.err != nil {
		d.reader = nil
		if ctx.Err() != nil {
			d.tried = time.Time{} // the asker's trouble, not the database's
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

// mark is a state of the database's files: whoever writes changes it.
type mark struct {
	size, logSize   int64
	written, logged time.Time
}

// mark is zero where there is no database.
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
