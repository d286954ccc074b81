// Package queue shares the GPUs of one host among several `swarm run` and the nodes of `swarm up`. It decides which job
// may use how much of which GPU, and when. Nodes do not wait in it but claim their planned memory. Its state is a
// folder, so it needs no server and outlives its members. It takes what the GPUs look like (Device) from its caller,
// owns no process, and must not import node or metrics/store.
//
// # The rule
//
// Tickets are numbered in order of arrival, and the one rule is: who came later never makes anybody wait. Whoever looks
// goes through the waiting tickets in that order. One that fits a GPU has its place there, whether or not it has come
// to take it yet. One that fits none has a GPU kept for it: later tickets may use of that GPU only what leaves room for
// it once the earlier claims there have ended. So a small ticket passes a large one exactly where it can't delay it,
// without anybody having to know how long anything runs; the oldest takes whatever fits it; and each is served at the
// latest when all earlier ones have ended. The price is that part of a kept GPU may lie idle for a while although
// something later would fit.
//
// An attempt that gives its GPU back keeps its number, and with it the memory that it had. Should it want more the
// second time, it may have to wait for what later tickets got in the meantime.
//
// A ticket holds nobody up while it can't be helped by waiting: when strangers' memory, or the size of the GPUs, keeps
// it from fitting even without any claim; and when its owner has not looked for a while (stopped by Ctrl-Z), until it
// looks again.
//
// # What is free
//
// A claim is what its owner said that it will use, and no byte of a GPU is claimed twice. Where the driver tells which
// process uses how much, what a GPU has left is what is free less what each claim has not used yet. Where it doesn't
// (in a container, under WSL), each claim counts in full beside what strangers used when the claims there were taken,
// or must be using now. Not detectable: another process that grows while claims are not used yet.
//
// # The folder
//
// lock is held (flock) for the milliseconds of each change; it holds the next number and a count of changes that may
// help others. Each ticket has NUMBER.json, replaced whole, and NUMBER.alive, which its owner keeps locked: the kernel
// drops that lock with the process, however it ends and in whichever pid namespace it ran, so that a reused pid can't
// deceive. The next one who looks sweeps the dead. A claim whose owner died stays while a process that it reported
// still runs, for that one still holds its memory. Nothing outlives a reboot, so nothing is synced. Entries of other
// hosts, in a home that several share, are left alone.
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

// Errors that callers tell apart.
var (
	ErrTimeout = errors.New("no GPU has room") // of Wait
	ErrLeft    = errors.New("the ticket has left the queue")
)

// Need is what a ticket waits for. A GPU fits when what it has left is at least both Bytes and MinFree.
type Need struct {
	Bytes     int64  `json:"bytes"`               // what it claims
	MinFree   int64  `json:"min_free,omitempty"`  // a GPU must have so much free
	GPU       string `json:"gpu,omitempty"`       // UUID, or CPU; "": any GPU, never the CPU
	Exclusive bool   `json:"exclusive,omitempty"` // no other claim beside it
}

// amount is how much memory a GPU must have. Nothing counts as a byte, so that it can be in somebody's way.
func (n Need) amount() int64 { return max(n.Bytes, n.MinFree, 1) }

// Claim is a device that a ticket has.
type Claim struct {
	GPU       string `json:"gpu"` // UUID, or CPU
	Index     int    `json:"index"`
	Name      string `json:"name"`
	Bytes     int64  `json:"bytes"`
	Exclusive bool   `json:"exclusive,omitempty"`
	Strangers int64  `json:"strangers"` // bytes that others than the queue's tickets used on the GPU when it was taken
}

// of is how much of a device a claim is.
func (c *Claim) of(r Device) int64 {
	if c.Exclusive {
		return max(c.Bytes, r.Total)
	}
	return max(c.Bytes, 1)
}

// Queue is a folder of tickets. It is safe for concurrent use, by any number of processes.
type Queue struct {
	Log *slog.Logger // gets the warnings; set it before the first use, or leave it nil

	dir  string
	host string // name of this machine, as recorded
	boot string // id of the kernel's run
	pids string // pid namespace
	now  func() time.Duration

	mu     sync.Mutex // serialises this process's use of the lock
	warned map[string]bool
}

// Open returns the queue in dir, which is made when the first ticket enters. It fails where the system can't tell who
// its processes are.
func Open(dir string) (*Queue, error) {
	self, err := supervise.Identify(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("queue: %w. Try: a system with /proc", err)
	}
	host, _ := os.Hostname() // without a name, entries from before a reboot stay
	pids, _ := os.Readlink(pidNamespace)
	return &Queue{dir: dir, host: host, boot: self.Boot, pids: pids, now: monotonic, warned: map[string]bool{}}, nil
}

// List returns who waits and who has what, oldest first; none where there is no queue yet. It changes nothing and takes
// no lock, so that what it returns may be of slightly different moments.
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

// Enter puts a job at the end of the queue. End its ticket with Leave; the end of the process ends it too.
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

// checked bounds a need.
func (n Need) checked() (Need, error) {
	if n.Bytes < 0 || n.MinFree < 0 || n.amount() > bytesLimit {
		return n, fmt.Errorf("queue: a need of %d bytes, %d free: allowed: 0 to %d", n.Bytes, n.MinFree, int64(bytesLimit))
	}
	return n, nil
}

// shortened cuts a name that is too long for a ticket, between characters.
func shortened(name string) string {
	name = strings.ToValidUTF8(name, "?")
	for len(name) > nameLimit {
		_, last := utf8.DecodeLastRuneInString(name[:nameLimit+1])
		name = name[:nameLimit+1-last]
	}
	return name
}

// monotonic is the kernel's clock, which no one sets and all processes share.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0 // no Linux fails here
	}
	return time.Duration(t.Nano())
}
