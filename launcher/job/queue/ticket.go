package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// Ticket is a job's place in the queue. The process that entered it holds it. Ticket is safe for concurrent use. Its
// state in memory is authoritative: if its files are damaged or removed, its next change writes them again.
type Ticket struct {
	q *Queue

	mu    sync.Mutex
	entry Entry
	alive *os.File // locked while this process holds the ticket
	left  bool
}

// Number returns the ticket's number. Numbers follow the order of arrival.
func (t *Ticket) Number() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entry.Number
}

// Need returns the ticket's need.
func (t *Ticket) Need() Need {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entry.Need
}

// Adjust records the real usage of the attempt: the claim's new size in bytes, and its processes. It writes nothing
// if nothing changed, or if the ticket has no device.
func (t *Ticket) Adjust(bytes int64, pids []int) error {
	pids = slices.Compact(slices.Sorted(slices.Values(pids)))
	pids = pids[:min(len(pids), pidLimit)]
	t.mu.Lock()
	same := t.entry.Claim == nil || t.entry.Claim.Bytes == bytes && slices.EqualFunc(t.entry.Processes, pids,
		func(id supervise.Identity, pid int) bool { return id.PID == pid })
	t.mu.Unlock()
	if same {
		return nil
	}
	if bytes < 0 || bytes > bytesLimit {
		return fmt.Errorf("queue: a claim of %d bytes: allowed: 0 to %d", bytes, int64(bytesLimit))
	}
	processes := make([]supervise.Identity, 0, len(pids))
	for _, pid := range pids {
		if id, err := supervise.Identify(pid); err == nil { // else the process has just ended
			processes = append(processes, id)
		}
	}
	return t.change(func(l *locked) error {
		if t.entry.Claim == nil {
			return nil
		}
		before := t.entry
		claim := *before.Claim
		claim.Bytes = bytes
		t.entry.Claim, t.entry.Processes = &claim, processes
		if err := t.save(); err != nil {
			t.entry = before // as other processes see it
			return err
		}
		if bytes < before.Claim.Bytes {
			l.changed()
		}
		return nil
	})
}

// Change replaces a ticket's need, for example between two attempts. The ticket keeps its device.
func (t *Ticket) Change(need Need) error {
	need, err := need.checked()
	if err != nil {
		return err
	}
	return t.change(func(l *locked) error {
		before := t.entry.Need
		t.entry.Need = need
		if err := t.save(); err != nil {
			t.entry.Need = before
			return err
		}
		l.changed() // its reservation may shrink
		return nil
	})
}

// Release returns the device and keeps the ticket's number, before all later tickets. The processes that used the
// device must be gone.
func (t *Ticket) Release() error {
	return t.change(func(l *locked) error {
		t.entry.Claim, t.entry.Processes, t.entry.Looked = nil, nil, t.q.now()
		defer l.changed()
		err := t.save()
		if err == nil {
			return nil
		}
		// On a full disk, remove the file with the claim first. That frees space for the entry without it.
		if err := os.Remove(t.q.path(t.entry.Number, stateExt)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return t.q.trouble(err)
		}
		return t.save()
	})
}

// Leave returns the device and leaves the queue. Repeated calls and a nil ticket are allowed.
func (t *Ticket) Leave() error {
	if t == nil {
		return nil
	}
	err := t.change(func(l *locked) error {
		defer l.changed()
		return t.forget()
	})
	if errors.Is(err, ErrLeft) {
		return nil
	}
	return err
}

// change runs f with the ticket's and the folder's locks.
func (t *Ticket) change(f func(*locked) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left {
		return ErrLeft
	}
	l, err := t.q.lock()
	if err != nil {
		return err
	}
	defer t.q.unlock(l)
	return f(l)
}

// save writes the ticket's state and holds its .alive lock, so that other processes see the ticket alive. The caller
// holds the lock.
func (t *Ticket) save() error {
	path := t.q.path(t.entry.Number, aliveExt)
	if t.alive == nil || !same(t.alive, path) {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return t.q.trouble(err)
		}
		if err := files.LockWithin(file, lockLimit); err != nil { // other processes hold it only for a moment, to test it
			file.Close()
			return t.q.trouble(err)
		}
		if t.alive != nil {
			t.alive.Close()
		}
		t.alive = file
	}
	return t.q.write(&t.entry)
}

// forget removes the ticket. The caller holds the lock.
func (t *Ticket) forget() error {
	err := t.q.remove(t.entry.Number)
	if t.alive != nil {
		t.alive.Close() // files that could not be removed now count as dead
	}
	t.alive, t.left = nil, true
	return err
}
