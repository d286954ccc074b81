package sharedir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// explain adds the folder's problem and a remedy to an error.
func explain(dir string, err error) error {
	is := func(errnos ...syscall.Errno) bool {
		for _, e := range errnos {
			if errors.Is(err, e) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return nil
	case is(syscall.ENOSPC, syscall.EDQUOT):
		return fmt.Errorf("the shared folder %s is full (%w). Try: free space there or raise its quota; the swarm then continues automatically", dir, err)
	case is(syscall.EROFS, syscall.EACCES, syscall.EPERM):
		return fmt.Errorf("the shared folder %s is not writable (%w). Try: ask its owner for write access, or mount it writable", dir, err)
	case errors.Is(err, fs.ErrNotExist), is(syscall.ENOTDIR, syscall.ENOTCONN, syscall.ESTALE, syscall.ENODEV, syscall.EIO):
		return fmt.Errorf("the shared folder %s is missing (%w). Try: mount it again, or check that its sync program runs; the swarm then continues automatically",
			dir, err)
	}
	return fmt.Errorf("shared folder %s: %w", dir, err)
}

// finalError ends an exchange permanently.
type finalError struct{ line string }

func (e *finalError) Error() string { return e.line }

// Is makes the error match exchange.ErrClosed: no later call will succeed.
func (e *finalError) Is(target error) bool { return target == exchange.ErrClosed }

// reportAgain is the minimum time between two reports of the same problem.
const reportAgain = 10 * time.Minute

// reporter logs each problem once, and its end.
type reporter struct {
	logger *slog.Logger

	mu       sync.Mutex
	reported map[string]time.Time
	bad      bool
}

// maxReported bounds the memory that a hostile folder can cause.
const maxReported = 256

// warn logs a line about a subject, unless it did so recently.
func (t *reporter) warn(thing, line string) {
	t.mu.Lock()
	now := time.Now()
	before, known := t.reported[thing]
	again := known && now.Sub(before) < reportAgain || !known && len(t.reported) >= maxReported
	if !again {
		if t.reported == nil {
			t.reported = make(map[string]time.Time)
		}
		t.reported[thing] = now
	}
	t.mu.Unlock()
	if !again {
		t.logger.Warn(line)
	}
}

// trouble records the result of an operation on the folder.
func (t *reporter) trouble(err error) {
	if err != nil {
		t.mu.Lock()
		t.bad = true
		t.mu.Unlock()
		t.warn("folder", err.Error())
		return
	}
	t.mu.Lock()
	was := t.bad
	t.bad = false
	delete(t.reported, "folder")
	t.mu.Unlock()
	if was {
		t.logger.Info("the shared folder is back")
	}
}
