package files

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// ErrLocked reports that the file is locked through another open file. It is the system's error, so that messages
// keep the system's wording.
var ErrLocked error = syscall.EWOULDBLOCK

const lockPoll = 5 * time.Millisecond

// Lock takes an exclusive lock on an open file or folder, without waiting. The kernel releases it at Unlock, or
// when the file is closed here and in every child that inherited it. Never remove a lock file: two processes could
// then lock two different files.
func Lock(file *os.File) error { return flock(file, syscall.LOCK_EX) }

// LockShared takes a shared lock, without waiting. Taking and releasing it tests whether a process holds the
// exclusive lock.
func LockShared(file *os.File) error { return flock(file, syscall.LOCK_SH) }

// LockWithin is Lock, but retries for up to patience.
func LockWithin(file *os.File, patience time.Duration) error {
	return within(patience, func() error { return Lock(file) })
}

// Unlock releases the lock at once. Closing alone is not enough: a child that is being forked may still hold the
// file.
func Unlock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }

// NoLocks reports whether an error of Lock means that the file system does not support locks.
func NoLocks(err error) bool {
	return errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENOLCK)
}

func within(patience time.Duration, lock func() error) error {
	for began := time.Now(); ; time.Sleep(lockPoll) {
		if err := lock(); !errors.Is(err, ErrLocked) || time.Since(began) > patience {
			return err
		}
	}
}

func flock(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
