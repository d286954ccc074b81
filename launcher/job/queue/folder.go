package queue

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/internal/files"
)

// Extensions of a ticket's files.
const (
	stateExt   = ".json"
	aliveExt   = ".alive"
	writingExt = ".tmp"
	damagedExt = ".damaged"
)

// numberLimit is above any ticket number.
const numberLimit = 1 << 62

// path returns the path of a ticket's file. Numbers have a fixed width, so that names sort by age.
func (q *Queue) path(number uint64, ext string) string {
	return filepath.Join(q.dir, fmt.Sprintf("%020d%s", number, ext))
}

// numberOf returns the number in a ticket's file name.
func numberOf(name, ext string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, ext)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0 && n < numberLimit
}

// files returns the sorted names in the folder, or none if the folder does not exist.
func (q *Queue) files() ([]string, error) {
	folder, err := os.Open(q.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, q.trouble(err)
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, q.trouble(err)
	}
	slices.Sort(names)
	return names, nil
}

// nextNumber returns a number above all earlier ones, by the counter and the folder. The caller holds the lock.
func (q *Queue) nextNumber(l *locked) (uint64, error) {
	names, err := q.files()
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if number, ok := numberOf(name, stateExt); ok {
			l.next = max(l.next, number+1)
		}
	}
	return l.next, nil
}

// entries sweeps dead tickets and returns the living tickets of this host, oldest first. The caller holds the lock.
func (q *Queue) entries(l *locked) ([]Entry, error) {
	names, err := q.files()
	if err != nil {
		return nil, err
	}
	all := make([]Entry, 0, len(names)/2)
	known := make(map[uint64]bool, len(names)/2)
	swept := false
	for _, name := range names {
		number, ok := numberOf(name, stateExt)
		if !ok {
			continue
		}
		known[number] = true
		e, err := q.read(number)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, errDamaged) {
			q.setAside(name, err)
			continue
		}
		if err != nil {
			return nil, q.trouble(err)
		}
		switch q.lives(&e) {
		case ours:
			all = append(all, e)
		case dead:
			swept = true
			q.remove(number)
		}
	}
	q.sweepRemains(names, known)
	if swept {
		l.changed()
	}
	return all, nil
}

// sweepRemains removes the files of crashed owners' tickets without state.
func (q *Queue) sweepRemains(names []string, known map[uint64]bool) {
	for _, name := range names {
		for _, ext := range []string{aliveExt, writingExt} {
			if number, ok := numberOf(name, ext); ok && !known[number] && !q.held(number) {
				os.Remove(filepath.Join(q.dir, name))
			}
		}
	}
}

// errDamaged reports a file that this package did not write.
var errDamaged = errors.New("not a ticket")

// read returns a ticket's state, errDamaged, or the system's error.
func (q *Queue) read(number uint64) (Entry, error) {
	file, err := os.OpenFile(q.path(number, stateExt), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) {
		return Entry{}, fmt.Errorf("%w: no regular file", errDamaged)
	}
	if err != nil {
		return Entry{}, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return Entry{}, fmt.Errorf("%w: no regular file", errDamaged)
	}
	data, err := io.ReadAll(io.LimitReader(file, entryLimit+1))
	if err != nil {
		return Entry{}, err
	}
	if len(data) > entryLimit {
		return Entry{}, fmt.Errorf("%w: more than %d bytes", errDamaged, entryLimit)
	}
	e, err := decodeEntry(data)
	if err == nil && e.Number != number {
		err = fmt.Errorf("it belongs to ticket %d", e.Number)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return e, nil
}

// whose classifies a ticket on this host.
type whose int

const (
	ours    whose = iota // it waits or has a claim
	dead                 // its owner and its processes are gone
	foreign              // of another host, or of an unknown boot
)

// lives classifies a ticket. It marks the ticket as orphaned if only processes of its attempt are left.
func (q *Queue) lives(e *Entry) whose {
	if e.Owner.Boot != q.boot {
		if e.Host == q.host && q.host != "" && !q.held(e.Number) {
			return dead // from before a reboot
		}
		return foreign
	}
	if q.held(e.Number) {
		return ours
	}
	if e.Claim != nil && e.Space == q.pids {
		for _, p := range e.Processes {
			if p.Alive() {
				e.Orphaned = true
				return ours
			}
		}
	}
	return dead
}

// held reports whether the owner of a ticket is alive.
func (q *Queue) held(number uint64) bool {
	// Use the system call directly: os.File costs more than the call itself, and this runs for each ticket at each
	// look.
	fd, err := unix.Open(q.path(number, aliveExt), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) // a file that can't be opened counts as alive
	}
	defer unix.Close(fd)
	return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) != nil
}

// write replaces a ticket's state atomically. It does not sync, because a crash of the machine empties the queue.
func (q *Queue) write(e *Entry) error {
	data, err := e.encode()
	if err != nil {
		return err
	}
	if err := files.Replace(q.path(e.Number, stateExt), q.path(e.Number, writingExt), data, 0o600); err != nil {
		return q.trouble(err)
	}
	return nil
}

// remove removes a ticket's files, the state first.
func (q *Queue) remove(number uint64) error {
	var failures []error
	for _, ext := range []string{stateExt, writingExt, aliveExt} {
		if err := os.Remove(q.path(number, ext)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, err)
		}
	}
	if err := errors.Join(failures...); err != nil {
		return q.trouble(err)
	}
	return nil
}

// setAside renames a file that is not a ticket's state, and warns once per file. A living owner writes its file
// again.
func (q *Queue) setAside(name string, reason error) {
	err := os.Rename(filepath.Join(q.dir, name), filepath.Join(q.dir, name+damagedExt))
	if q.warned[name] {
		return
	}
	q.warned[name] = true
	if q.Log == nil {
		return
	}
	path := filepath.Join(q.dir, name)
	if err != nil {
		q.Log.Warn("a file in the queue is damaged", "file", path, "reason", reason, "err", err)
		return
	}
	q.Log.Warn("a damaged file in the queue was renamed", "file", path+damagedExt, "reason", reason)
}
