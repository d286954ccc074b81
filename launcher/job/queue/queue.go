// Package queue shares the GPUs of one host among several `swarm run` and the nodes of `swarm up`. It decides which
// job may use how much of which GPU, and when. Nodes do not wait in the queue but claim their planned memory. The
// queue's state is a folder, so it needs no server and outlives its members. The caller supplies the state of the
// GPUs (Device). The package owns no process, and must not import node or metrics/store.
//
// # The rule
//
// Tickets are numbered in order of arrival. The only rule is that a later ticket never delays an earlier one. Each
// decision goes through the waiting tickets in that order:
//
//   - A ticket that fits a GPU counts as placed there, even before its owner has taken the GPU.
//   - A ticket that fits no GPU reserves one. Later tickets may use of that GPU only the memory that the ticket will
//     not need once the earlier claims there have ended.
//
// So a small ticket overtakes a large one exactly if it can't delay it, and no runtime estimates are needed. The
// oldest ticket takes any GPU that fits it. A ticket waits at most until all earlier ones have ended. The price is
// that part of a reserved GPU may stay idle although a later ticket would fit.
//
// An attempt that returns its GPU keeps its number, and so its memory stays available to it. If the next attempt
// needs more, it may have to wait for memory that later tickets got in the meantime.
//
// A ticket gets no reservation if it would not fit even without any claim, because of the size of the GPUs or the
// memory of processes outside the queue. Waiting can't help such a ticket. A ticket also gets no reservation while its
// owner has not looked for a while (stopped by Ctrl-Z).
//
// # What is free
//
// A claim is the memory that its owner has announced, and no byte of a GPU is claimed twice. If the driver reports
// the memory of each process, the available memory is the free memory minus the unused part of each claim. If it does
// not (in a container, under WSL), each claim counts in full. Added to it is the memory that processes outside the
// queue used when the claims were taken, or must be using now. The queue can't detect an outside process that grows
// while claims are unused.
//
// # The folder
//
// The file lock is locked (flock) for the milliseconds of each change. It contains the next number and the number of
// changes that waiting tickets may react to. Each ticket has NUMBER.json, replaced atomically, and NUMBER.alive,
// which its owner keeps locked. The kernel releases that lock with the process, in any pid namespace, so a reused pid
// can't be mistaken for the owner. The next process that reads the folder removes dead tickets. A claim of a dead owner
// stays while a process that it recorded still runs, because that process still holds memory. Nothing needs to survive
// a reboot, so nothing is synced. Entries of other hosts, in a shared home, are left alone.
package queue

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// CPU is the host's memory as a Device.GPU and a Need.GPU.
const CPU = "cpu"

// Errors that callers distinguish.
var (
	ErrTimeout = errors.New("no GPU has enough free memory") // returned by Wait
	ErrLeft    = errors.New("the ticket has left the queue")
)

// Need is the request of a ticket. A GPU fits if its available memory is at least both Bytes and MinFree.
type Need struct {
	Bytes     int64  `json:"bytes"`               // bytes to claim
	MinFree   int64  `json:"min_free,omitempty"`  // least free bytes of the GPU
	GPU       string `json:"gpu,omitempty"`       // UUID, or CPU; "": any GPU, never the CPU
	Exclusive bool   `json:"exclusive,omitempty"` // no other claim on the same GPU
}

// amount returns the memory that a GPU must have. It is at least one byte, so that a need of 0 bytes also occupies
// memory.
func (n Need) amount() int64 { return max(n.Bytes, n.MinFree, 1) }

// Claim is a ticket's part of a device.
type Claim struct {
	GPU       string `json:"gpu"` // UUID, or CPU
	Index     int    `json:"index"`
	Name      string `json:"name"`
	Bytes     int64  `json:"bytes"`
	Exclusive bool   `json:"exclusive,omitempty"`
	Strangers int64  `json:"strangers"` // bytes that processes outside the queue used on the GPU at that time
}

// of returns the bytes of a device that a claim covers.
func (c *Claim) of(r Device) int64 {
	if c.Exclusive {
		return max(c.Bytes, r.Total)
	}
	return max(c.Bytes, 1)
}

// Queue is a folder of tickets. It is safe for concurrent use by any number of processes.
type Queue struct {
	Log *slog.Logger // receives the warnings; set it before the first use, or leave it nil

	dir  string
	host string // recorded name of this machine
	boot string // boot id of the kernel
	pids string // pid namespace
	now  func() time.Duration

	mu     sync.Mutex // serializes this process's use of the lock
	warned map[string]bool
}

// Open returns the queue in dir. The first ticket creates the folder. Open fails on a system that can't identify
// processes.
func Open(dir string) (*Queue, error) {
	self, err := supervise.Identify(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("queue: %w. Try: a system with /proc", err)
	}
	host, _ := os.Hostname() // without a host name, entries from before a reboot stay
	pids, _ := os.Readlink(pidNamespace)
	return &Queue{dir: dir, host: host, boot: self.Boot, pids: pids, now: monotonic, warned: map[string]bool{}}, nil
}

// List returns the waiting tickets and those with a claim, oldest first, or none if there is no queue yet. It changes
// nothing and takes no lock, so the entries may be of slightly different moments.
func (q *Queue) List() ([]Entry, error) {
	names, err := q.files()
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, name := range names {
		number, ok := numberOf(name, stateExt)
		if !ok {
			continue
		}
		if e, err := q.read(number); err == nil && q.lives(&e) == ours {
			all = append(all, e)
		}
	}
	return all, nil
}

// Enter puts a job at the end of the queue. End its ticket with Leave. The end of the process ends it too.
func (q *Queue) Enter(name string, need Need) (*Ticket, error) {
	self, err := supervise.Identify(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	if need, err = need.checked(); err != nil {
		return nil, err
	}
	l, err := q.lock()
	if err != nil {
		return nil, err
	}
	defer q.unlock(l)
	number, err := q.nextNumber(l)
	if err != nil {
		return nil, err
	}
	l.next = number + 1
	if err := l.save(); err != nil {
		return nil, q.trouble(err)
	}
	t := &Ticket{q: q, entry: Entry{
		Number: number, Name: shortened(name), Host: q.host, Owner: self, Space: q.pids,
		Entered: time.Now().UTC().Truncate(time.Second), Need: need, Looked: q.now(),
	}}
	if err := t.save(); err != nil {
		t.forget()
		return nil, err
	}
	return t, nil
}

// checked returns an error for a need that is out of range.
func (n Need) checked() (Need, error) {
	if n.Bytes < 0 || n.MinFree < 0 || n.amount() > bytesLimit {
		return n, fmt.Errorf("queue: a need of %d bytes, %d free: allowed: 0 to %d", n.Bytes, n.MinFree, int64(bytesLimit))
	}
	return n, nil
}

// shortened cuts a name to nameLimit bytes, between characters.
func shortened(name string) string {
	name = strings.ToValidUTF8(name, "?")
	for len(name) > nameLimit {
		_, last := utf8.DecodeLastRuneInString(name[:nameLimit+1])
		name = name[:nameLimit+1-last]
	}
	return name
}

// monotonic returns the kernel's clock, which cannot be set and is the same for all processes.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0 // never on Linux
	}
	return time.Duration(t.Nano())
}
