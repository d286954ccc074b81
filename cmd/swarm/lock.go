package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
)

// experimentLock is held while a coordinator runs an experiment. The kernel drops it with the process, however that ends.
type experimentLock struct{ file *os.File }

func lockPath(home layout.Home, experiment string) string {
	return home.Path("locks", experiment+".lock")
}

// lockTries is how often a lock is asked for, 50 ms apart: somebody may be looking whether it is held, which holds it for an instant.
const lockTries = 5

// lockFile takes the lock, exclusive or shared, or says who has it.
func lockFile(file *os.File, experiment string, how int) error {
	var err error
	for try := range lockTries {
		if try > 0 {
			time.Sleep(50 * time.Millisecond)
		}
		if err = syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB); err == nil {
			return nil
		}
	}
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	holder := make([]byte, 32)
	n, _ := file.ReadAt(holder, 0)
	return fail.Hint(
		fmt.Errorf("experiment %s is running already (process %s)", experiment, strings.TrimSpace(string(holder[:n]))),
		"swarm attach "+experiment+", swarm down "+experiment+", or --name OTHER for a second one")

}

// lockExperiment takes the lock of an experiment under home, or says who has it.
func lockExperiment(home layout.Home, experiment string) (*experimentLock, error) {
	path := lockPath(home, experiment)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, home.Error(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, home.Error(err)
	}
	if err := lockFile(file, experiment, syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, err
	}
	if err := file.Truncate(0); err != nil {
		file.Close()
		return nil, home.Error(err)
	}
	if _, err := fmt.Fprintf(file, "%d\n", os.Getpid()); err != nil {
		file.Close()
		return nil, home.Error(err)
	}
	return &experimentLock{file}, nil
}

// alreadyRunning says who runs an experiment, if anybody does. It makes no file.
func alreadyRunning(home layout.Home, experiment string) error {
	file, err := os.Open(lockPath(home, experiment))
	if err != nil {
		return nil // nobody ever ran it here, or the lock itself will say what is wrong
	}
	defer file.Close()
	return lockFile(file, experiment, syscall.LOCK_SH)
}

// release gives the lock up. The file stays: removing it would let two others lock two different files.
func (l *experimentLock) release() { l.file.Close() }
