package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// Errors that callers may test for.
var (
	ErrNotFound   = errors.New("no such run or experiment")
	ErrNoDatabase = errors.New("no database yet")
	ErrClosed     = errors.New("store is closed")
)

// Error is a failure that the user can fix. Remedy says how, in one line.
type Error = sqlite.Error

// Recovered reports that writing works again and that all queued events are written.
type Recovered struct {
	Path  string // the database
	After time.Duration
}

// Error implements error.
func (r *Recovered) Error() string {
	return fmt.Sprintf("database %s: writing works again after %s; nothing is lost", r.Path, r.After.Round(time.Millisecond))
}
