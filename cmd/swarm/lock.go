package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// experimentLock is held while a coordinator runs an experiment. The kernel drops it with the process, however that ends.
type experimentLock struct{ file *os.File }

// lockExperiment takes the lock of an experiment under home, or says who has it.
func lockExperiment(home, experiment string) (*experimentLock, error) {
	dir := filepath.Join(home, "locks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, homeError(home, err)
	}
	path := filepath.Join(dir, experiment+".lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, homeError(home, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer file.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		holder := make([]byte, 32)
		n, _ := file.ReadAt(holder, 0)
		return nil, &hintError{
			fmt.Errorf("experiment %s is running already (process %s)", experiment, strings.TrimSpace(string(holder[:n]))),
			"swarm status " + experiment + ", or --name OTHER for a second one",
		}
	}
	if err := file.Truncate(0); err != nil {
		file.Close()
		return nil, homeError(home, err)
	}
	if _, err := fmt.Fprintf(file, "%d\n", os.Getpid()); err != nil {
		file.Close()
		return nil, homeError(home, err)
	}
	return &experimentLock{file}, nil
}

// release gives the lock up. The file stays: removing it would let two others lock two different files.
func (l *experimentLock) release() { l.file.Close() }

// homeError says what to do about a folder that can't be used.
func homeError(home string, err error) error {
	try := "another --home, or mend the folder's permissions"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		try = "free some space, or put --home on another disk"
	case errors.Is(err, syscall.EROFS):
		try = "--home on a disk that can be written to"
	}
	return &hintError{fmt.Errorf("cannot write under %s: %w", home, err), try}
}
