package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Claim is a lock file that names the process that holds it. The kernel releases the lock when the process ends, in
// whatever way. The file stays.
type Claim struct{ file *os.File }

// HeldError reports that another process holds a lock file.
type HeldError struct {
	Path   string
	Holder string // process id, or "unknown" if the file does not name it
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is locked by process %s", e.Path, e.Holder)
}

// ClaimPatience is the time for which TakeClaim retries, because a process that only checks the lock also holds it
// for an instant.
const ClaimPatience = 200 * time.Millisecond

// TakeClaim locks the file at path until Release. It creates the file and its folder if they are missing. It
// returns a *HeldError if another process holds the lock.
func TakeClaim(path string) (*Claim, error) {
	if err := MakeFolder(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = held(file, LockWithin(file, ClaimPatience))
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(file, "%d\n", os.Getpid())
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &Claim{file}, nil
}

// Release releases the lock.
func (c *Claim) Release() { c.file.Close() }

// LookClaim returns a *HeldError if a process holds the lock file at path for all of patience. It creates no file,
// and returns nil if there is none.
func LookClaim(path string, patience time.Duration) error {
	file, err := os.Open(path)
	if err != nil {
		return nil // no process ever held it, or TakeClaim will report what is wrong
	}
	defer file.Close()
	return held(file, within(patience, func() error { return LockShared(file) }))
}

// held adds the holder to a locking error: it turns ErrLocked into a *HeldError.
func held(file *os.File, err error) error {
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrLocked):
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	e := &HeldError{Path: file.Name(), Holder: "unknown"}
	content := make([]byte, 32)
	n, _ := file.ReadAt(content, 0)
	if text := strings.TrimSpace(string(content[:n])); text != "" {
		e.Holder = text
	}
	return e
}
