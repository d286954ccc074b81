package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/files"
)

const (
	lockName  = "lock"
	lockLimit = 10 * time.Second // another process may be stopped in the middle of a change
	lockPoll  = 2 * time.Millisecond

	// counterWidth is the width in bytes of each of the two numbers in the lock file. They are overwritten in place,
	// so a full disk or a crash can't truncate them.
	counterWidth = 20
)

// locked is the lock on the folder, with its counters.
type locked struct {
	file    *os.File
	next    uint64 // lower bound of the next ticket's number
	changes uint64 // number of changes that waiting tickets may react to
}

// lock takes the folder's lock within lockLimit.
func (q *Queue) lock() (*locked, error) {
	q.mu.Lock()
	l, err := q.lockFile()
	if err != nil {
		q.mu.Unlock()
		return nil, err
	}
	return l, nil
}

func (q *Queue) lockFile() (*locked, error) {
	path := filepath.Join(q.dir, lockName)
	for began := time.Now(); ; {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if errors.Is(err, fs.ErrNotExist) { // or another process has just removed it
			if err := os.MkdirAll(q.dir, 0o700); err != nil {
				return nil, q.trouble(err)
			}
			file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		}
		if err != nil {
			return nil, q.trouble(err)
		}
		err = files.Lock(file)
		if err == nil && same(file, path) {
			l := &locked{file: file}
			if l.next, l.changes = l.counters(); l.next == 0 {
				// The folder is new, or the file was lost. No number may be used twice, and there were fewer tickets
				// than microseconds since boot.
				l.next = uint64(max(1, q.now().Microseconds()))
			}
			return l, nil
		}
		file.Close()
		if err != nil && !errors.Is(err, files.ErrLocked) {
			return nil, q.trouble(err)
		}
		if time.Since(began) > lockLimit {
			return nil, fmt.Errorf("queue: %s has been locked for %s, perhaps by a suspended swarm process. Try: fuser -v %s", path, lockLimit, path)
		}
		time.Sleep(lockPoll)
	}
}

// same reports whether a path still names an open file. A lock on a removed file excludes no process.
func same(file *os.File, path string) bool {
	a, errA := file.Stat()
	b, errB := os.Lstat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// unlock releases the folder's lock.
func (q *Queue) unlock(l *locked) {
	_ = files.Unlock(l.file)
	l.file.Close()
	q.mu.Unlock()
}

// counters reads the numbers; 0 if they are unreadable.
func (l *locked) counters() (next, changes uint64) {
	data := make([]byte, 2*counterWidth)
	n, _ := l.file.ReadAt(data, 0)
	return parseCounters(data[:n])
}

func parseCounters(data []byte) (next, changes uint64) {
	if len(data) != 2*counterWidth {
		return 0, 0
	}
	next, errNext := strconv.ParseUint(strings.TrimSpace(string(data[:counterWidth])), 10, 64)
	changes, errChanges := strconv.ParseUint(strings.TrimSpace(string(data[counterWidth:])), 10, 64)
	if errNext != nil || errChanges != nil || next > numberLimit {
		return 0, 0 // the next number then comes from the tickets' names
	}
	return next, changes
}

// save writes the numbers.
func (l *locked) save() error {
	_, err := l.file.WriteAt(fmt.Appendf(nil, "%*d%*d", counterWidth, l.next, counterWidth, l.changes), 0)
	return err
}

// changed wakes waiting tickets. If it fails, they notice the change at their next poll.
func (l *locked) changed() {
	l.changes++
	_ = l.save()
}

// watch returns the number of changes without taking the lock.
func (q *Queue) watch() uint64 {
	data, err := os.ReadFile(filepath.Join(q.dir, lockName))
	if err != nil {
		return 0
	}
	_, changes := parseCounters(data[:min(len(data), 2*counterWidth)])
	return changes
}

// trouble adds a remedy to an error of the folder.
func (q *Queue) trouble(err error) error {
	try := "another --home, or fix the folder's permissions"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		try = "free some space, or put --home on another disk"
	case errors.Is(err, syscall.EROFS):
		try = "--home on a writable disk"
	case files.NoLocks(err), errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("queue: %s: this file system does not support locks (%w). Try: --home on a local disk", q.dir, err)
	}
	return fmt.Errorf("queue: %w. Try: %s", err, try)
}
