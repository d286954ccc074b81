package plan

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
)

// Turn is a lock for the one process of this user on this host that is about to fill GPUs it has waited for. The
// kernel releases it when the process ends.
type Turn struct{ file *os.File }

var errTurnTaken = errors.New("another process is filling GPUs")

// TakeTurn acquires the turn, or returns errTurnTaken.
func TakeTurn() (*Turn, error) {
	path := filepath.Join(os.TempDir(), "swarm-gpu-"+strconv.Itoa(os.Getuid())+".lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fail.Hint(fmt.Errorf("wait for a GPU: %w", err), "another folder in $TMPDIR")
	}
	if err := files.Lock(file); err != nil {
		file.Close()
		if errors.Is(err, files.ErrLocked) {
			return nil, errTurnTaken
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &Turn{file}, nil
}

// Release releases the turn. It does nothing on nil or when called again.
func (t *Turn) Release() {
	if t != nil {
		t.file.Close()
	}
}
