// Package lease decides which nodes may compute, by the bytes that they declare and by a number of slots. Each lease
// carries its node's name, so that the leases of a dead node can be released. The package owns no process and no
// clock, and imports nothing of this module.
//
// Pool serves requests strictly in order of arrival. A large request at the head holds back the small ones behind it,
// so it can't starve. A swarm's round ends with its slowest node, and first come, first served gives the last node
// its shortest wait. The work in front of a request bounds its wait: while a request waits, the running leases use
// more than the capacity minus the largest request.
//
// golang.org/x/sync/semaphore does not fit. It has one weight instead of two limits, its size is fixed, and its leases
// have no names by which to release those of a dead node. Its callers queue in the order in which their goroutines
// happen to run.
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

// All requests the whole capacity. Use it when the number of bytes is unknown.
const All int64 = 1 << 50

// Key names a lease: the node and the id it chose.
type Key struct {
	Node string
	ID   int64
}

// Capacity limits the leases of a Pool. Zero means no limit.
type Capacity struct {
	Bytes int64 // held at once
	Slots int   // leases held at once
}

// Pool grants leases within a capacity. It is safe for concurrent use.
type Pool struct {
	mu       sync.Mutex
	capacity Capacity
	bytes    int64      // held
	queue    *list.List // of waiting *Ticket, oldest first
	held     *list.List // of *Ticket, oldest first
	tickets  map[Key]*Ticket
	closed   bool
}

// NewPool returns a Pool that holds no lease.
func NewPool(c Capacity) *Pool {
	return &Pool{capacity: c.positive(), queue: list.New(), held: list.New(), tickets: map[Key]*Ticket{}}
}

func (c Capacity) positive() Capacity {
	return Capacity{Bytes: max(0, c.Bytes), Slots: max(0, c.Slots)}
}

// Request queues a lease of a number of bytes and returns at once. A request above the capacity counts as the whole
// capacity: it runs alone, and its holder must enforce its own limit. End every ticket by Release, ReleaseAll, Close,
// or the end of the context of Wait. Request returns ErrInUse if a lease with the key waits or is held, and ErrClosed
// after Close.
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

// Release ends a lease, held or waiting, and reports whether it existed.
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

// ReleaseAll ends every lease and request of a node and returns their number.
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
	p.grant() // not earlier: that would serve the node's own requests first
	return n
}

// Resize changes the capacity. Held leases stay valid. If they exceed the new capacity, the next grant waits until
// enough of them end.
func (p *Pool) Resize(c Capacity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capacity = c.positive()
	for e := p.held.Front(); e != nil; e = e.Next() {
		t := e.Value.(*Ticket) // a lease that was cut to a smaller capacity uses more than it counted for
		more := max(t.bytes, p.need(t)) - t.bytes
		t.bytes += more
		p.bytes += more
	}
	p.grant()
}

// Close ends every waiting request with ErrClosed and refuses new ones. Held leases stay valid.
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

// need returns the bytes that a ticket counts for. The caller holds mu.
func (p *Pool) need(t *Ticket) int64 {
	if p.capacity.Bytes == 0 {
		return t.asked
	}
	return min(t.asked, p.capacity.Bytes)
}

// end removes a ticket in any state. The caller holds mu and calls grant afterwards.
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
