package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Claim is a lock file that names the process that holds it. The kernel drops the lock with the process, however that
// ends; the file stays.
type Claim struct{ file *os.File }

// HeldError is of a lock file that another process holds.
type HeldError struct {
	Path   string
	Holder string // its process id, "unknown" where the file doesn't tell
}

func (e *HeldError) Error() string { return fmt.Sprintf("%s is held by process %s", e.Path, e.Holder) }

// ClaimPatience is how long TakeClaim asks for a lock: somebody may be looking whether it is held, which holds it for
// an instant.
const ClaimPatience = 200 * time.Millisecond

// TakeClaim makes the lock file at path, with its folder, where it is missing, and holds it until Release. Another's is
// a *HeldError.
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

// Release gives the claim up.
func (c *Claim) Release() { c.file.Close() }

// LookClaim returns a *HeldError if a process holds the lock file at path for all of patience. It makes no file, and
// none is no error.
func LookClaim(path string, patience time.Duration) error {
	file, err := os.Open(path)
	if err != nil {
		return nil // nobody ever held it, or TakeClaim will say what is wrong
	}
	defer file.Close()
	return held(file, within(patience, func() error { return LockShared(file) }))
}

// held says of an error of a lock who holds it.
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
