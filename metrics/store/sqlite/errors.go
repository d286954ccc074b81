package sqlite

import (
	"errors"
	"fmt"

	"github.com/mattn/go-sqlite3"
)

// Error is a failure that the user can fix. Remedy says how, in one line.
type Error struct {
	Path   string // the database
	Reason string
	Try    string
	Err    error // may be nil
}

// Error returns one line without the remedy.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("database %s: %s", e.Path, e.Reason)
	}
	return fmt.Sprintf("database %s: %s: %v", e.Path, e.Reason, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Remedy returns the suggested fix.
func (e *Error) Remedy() string { return e.Try }

// Explain adds a reason and a remedy to SQLite's own errors, and wraps others.
func Explain(path string, err error) error {
	var own *Error
	var sq sqlite3.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	if !errors.As(err, &sq) {
		return fmt.Errorf("database %s: %w", path, err)
	}
	e := &Error{Path: path, Reason: "cannot be used", Try: "run `swarm doctor`", Err: err}
	switch sq.Code {
	case sqlite3.ErrFull:
		e.Reason, e.Try = "disk full", "free some space on its disk; writing then continues automatically"
	case sqlite3.ErrIoErr:
		e.Reason, e.Try = "disk error", "check the disk's free space, quota and file size limit"
	case sqlite3.ErrTooBig:
		e.Reason, e.Try = "it has a value larger than any swarm run writes", "a file of swarm export --format sqlite"
	case sqlite3.ErrNotADB:
		e.Reason, e.Try = "not a swarm database", "choose another --home, or move that file away"
	case sqlite3.ErrCorrupt:
		e.Reason, e.Try = "damaged", "move the file away; a new, empty database will be created"
	case sqlite3.ErrBusy, sqlite3.ErrLocked:
		e.Reason, e.Try = "locked by another program", "close the program that writes to it"
	case sqlite3.ErrReadonly, sqlite3.ErrPerm, sqlite3.ErrCantOpen, sqlite3.ErrAuth:
		e.Reason, e.Try = "no permission to use it", "choose another --home, or fix the permissions of the file and its folder"
	}
	return e
}

// IsRejection reports whether a row itself caused the error, so that a retry cannot succeed.
func IsRejection(err error) bool {
	var sq sqlite3.Error
	if !errors.As(err, &sq) {
		return false
	}
	switch sq.Code {
	case sqlite3.ErrConstraint, sqlite3.ErrMismatch, sqlite3.ErrTooBig, sqlite3.ErrRange:
		return true
	}
	return false
}
