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

// Ticket is a job's place in the queue, held by the process that entered it. It is safe for concurrent use. What it
// holds in memory is the truth: should its files be damaged or removed, its next change makes them anew.
type Ticket struct {
	q *Queue

	mu    sync.Mutex
	entry Entry
	alive *os.File // locked for as long as this process holds the ticket
	left  bool
}

// Number is the ticket's number, by order of arrival.
func (t *Ticket) Number() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entry.Number
}

// Need is what the ticket waits for.
func (t *Ticket) Need() Need {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entry.Need
}

// Adjust tells what the attempt really uses: its claim grows or shrinks to so many bytes, and pids are its processes.
// It costs nothing where nothing changed. Without a device it does nothing.
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
		if id, err := supervise.Identify(pid); err == nil { // else it has just ended
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
			t.entry = before // as the others see it
			return err
		}
		if bytes < before.Claim.Bytes {
			l.changed()
		}
		return nil
	})
}

// Change replaces what a ticket waits for, as between two attempts. A device that it has stays.
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
		l.changed() // it may hold up others no longer
		return nil
	})
}

// Release gives the device back and stays in line: with its number, in front of all that came later. The processes that
// used the device must be gone.
func (t *Ticket) Release() error {
	return t.change(func(l *locked) error {
		t.entry.Claim, t.entry.Processes, t.entry.Looked = nil, nil, t.q.now()
		defer l.changed()
		err := t.save()
		if err == nil {
			return nil
		}
		// On a full disk the claim must go all the same, and leaves room for the entry without it.
		if err := os.Remove(t.q.path(t.entry.Number, stateExt)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return t.q.trouble(err)
		}
		return t.save()
	})
}

// Leave gives the device back and leaves the queue. It can be called again, and on nil.
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

// change runs f under the ticket's and the folder's locks.
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

// save writes the ticket's state, and sees to it that others see it alive. It needs the lock.
func (t *Ticket) save() error {
	path := t.q.path(t.entry.Number, aliveExt)
	if t.alive == nil || !same(t.alive, path) {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return t.q.trouble(err)
		}
		if err := files.LockWithin(file, lockLimit); err != nil { // others hold it for an instant at most, to see whether it is held
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

// forget removes the ticket. It needs the lock.
func (t *Ticket) forget() error {
	err := t.q.remove(t.entry.Number)
	if t.alive != nil {
		t.alive.Close() // whatever could not be removed is dead from now on
	}
	t.alive, t.left = nil, true
	return err
}
