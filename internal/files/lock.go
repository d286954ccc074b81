package files

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// ErrLocked is the error of a file that is locked through another open file. It is the system's, so that a message
// keeps its words.
var ErrLocked error = syscall.EWOULDBLOCK

const lockPoll = 5 * time.Millisecond

// Lock locks an open file or folder for this open file alone, without waiting. The kernel drops the lock when the file
// is closed here and in every child that inherited it, or at Unlock. A lock file is never removed: two others could
// lock two different ones.
func Lock(file *os.File) error { return flock(file, syscall.LOCK_EX) }

// LockShared is Lock beside others that lock it shared. A shared lock that is had at once and dropped tells that nobody
// holds the file.
func LockShared(file *os.File) error { return flock(file, syscall.LOCK_SH) }

// LockWithin is Lock, but waits for others up to patience.
func LockWithin(file *os.File, patience time.Duration) error {
	return within(patience, func() error { return Lock(file) })
}

// Unlock drops the lock at once. Closing alone leaves it to a child that is just being forked.
func Unlock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }

// NoLocks tells whether an error of Lock is of a file system without locks.
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
