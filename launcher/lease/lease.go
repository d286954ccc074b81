// Package lease decides which nodes may compute now, by the bytes that they declare and by a number of slots. Holders
// have names, so that the leases of a dead node can be released. It owns no process and no clock; it imports nothing of
// this module.
//
// Requests are served strictly in order of arrival. A large request at the head holds back the small ones behind it,
// and so it can't starve; and at a swarm's barrier, where the round ends with its slowest node, first come first served
// is the shortest wait for the last one. The wait of a request is bounded by the work in front of it: while it waits,
// more than the capacity less the largest request is at work.
//
// It is no golang.org/x/sync/semaphore: that one has one weight instead of two limits, a size that can't change, no
// names by which a dead node's share could be found, and a queue that a caller can enter by a goroutine of its own
// only, in whatever order these happen to run.
package lease

import (
	"container/list"
	"errors"
	"fmt"
	"sync"
)

// Errors of requests and waits.
var (
	ErrInUse    = errors.New("lease id already in use")
	ErrReturned = errors.New("lease returned before it was granted") // Release, ReleaseAll
	ErrClosed   = errors.New("leases closed")
)

// All asks for everything there is: a request whose bytes nobody knows.
const All int64 = 1 << 50

// Key names a lease: the node and the id it chose.
type Key struct {
	Node string
	ID   int64
}

// Capacity is what leases share. Zero is no limit.
type Capacity struct {
	Bytes int64 // held at one time
	Slots int   // leases held at one time
}

// Pool hands out leases within a capacity. It is safe for concurrent use.
type Pool struct {
	mu       sync.Mutex
	capacity Capacity
	bytes    int64      // held
	queue    *list.List // of *Ticket that wait, oldest first
	held     *list.List // of *Ticket, oldest first
	tickets  map[Key]*Ticket
	closed   bool
}

// NewPool returns a Pool in which nothing is held.
func NewPool(c Capacity) *Pool {
	return &Pool{capacity: c.positive(), queue: list.New(), held: list.New(), tickets: map[Key]*Ticket{}}
}

func (c Capacity) positive() Capacity {
	return Capacity{Bytes: max(0, c.Bytes), Slots: max(0, c.Slots)}
}

// Request queues a lease of a number of bytes and returns at once. One of more than the capacity is taken as one of the
// whole: it will be alone, and its holder's own limit has to guard the rest. Every ticket must be ended by Release,
// ReleaseAll, Close or a Wait whose context ends. It returns ErrInUse for a key that waits or is held, ErrClosed.
func (p *Pool) Request(key Key, bytes int64) (*Ticket, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, ErrClosed
	case p.tickets[key] != nil:
		return nil, fmt.Errorf("%w: %s/%d", ErrInUse, key.Node, key.ID)
	}
	t := &Ticket{pool: p, key: key, asked: min(max(0, bytes), All), ready: make(chan struct{}), over: make(chan struct{})}
	t.place = p.queue.PushBack(t)
	p.tickets[key] = t
	p.grant()
	return t, nil
}

// Release ends a lease, held or waiting, and reports whether there was one.
func (p *Pool) Release(key Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.tickets[key]
	if ok {
		p.end(t, ErrReturned)
		p.grant()
	}
	return ok
}

// ReleaseAll ends every lease and request of a node, and returns how many there were.
func (p *Pool) ReleaseAll(node string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for key, t := range p.tickets {
		if key.Node == node {
			p.end(t, ErrReturned)
			n++
		}
	}
	p.grant() // not before: the node's own requests would be served first
	return n
}

// Resize changes the capacity. Nobody loses a lease: where more is held than there now is, the next grant waits until
// it is not.
func (p *Pool) Resize(c Capacity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capacity = c.positive()
	for e := p.held.Front(); e != nil; e = e.Next() {
		t := e.Value.(*Ticket) // one that was cut down to a smaller capacity takes more than it counted for
		more := max(t.bytes, p.need(t)) - t.bytes
		t.bytes += more
		p.bytes += more
	}
	p.grant()
}

// Close ends every request with ErrClosed and refuses new ones. Leases that are held stay valid.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, t := range p.tickets {
		if !t.held {
			p.end(t, ErrClosed)
		}
	}
}

// need is what a ticket counts for. The caller holds mu.
func (p *Pool) need(t *Ticket) int64 {
	if p.capacity.Bytes == 0 {
		return t.asked
	}
	return min(t.asked, p.capacity.Bytes)
}

// end takes a ticket out, whatever its state. The caller holds mu and calls grant afterwards.
func (p *Pool) end(t *Ticket, why error) {
	if p.tickets[t.key] != t {
		return
	}
	delete(p.tickets, t.key)
	if t.held {
		p.held.Remove(t.place)
		p.bytes -= t.bytes
	} else {
		p.queue.Remove(t.place)
		t.err = why
		close(t.ready)
	}
	close(t.over)
}

// grant serves the head of the queue as long as it fits. The caller holds mu.
func (p *Pool) grant() {
	for !p.closed {
		head := p.queue.Front()
		if head == nil {
			return
		}
		t := head.Value.(*Ticket)
		need := p.need(t)
		if p.capacity.Bytes > 0 && p.bytes+need > p.capacity.Bytes || p.capacity.Slots > 0 && p.held.Len() >= p.capacity.Slots {
			return
		}
		p.queue.Remove(head)
		t.place, t.held, t.bytes = p.held.PushBack(t), true, need
		p.bytes += need
		close(t.ready)
	}
}
