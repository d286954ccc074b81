// Package lease admits who may compute now: a fair weighted semaphore whose holders are known by name, so that what a dead node
// held comes back. It owns no process and no clock; it imports nothing of ours.
//
// Requests are served strictly in order of arrival. A large request at the head holds back the small ones behind it, and so it
// can't starve; and at a swarm's barrier, where the round ends with its slowest node, first come first served is the shortest wait
// for the last one.
package lease

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
)

// Errors of requests and waits.
var (
	ErrTooLarge = errors.New("lease larger than everything there is")
	ErrInUse    = errors.New("lease id already in use")
	ErrReturned = errors.New("lease returned before it was granted") // Release, ReleaseAll
	ErrClosed   = errors.New("leases closed")
)

// Key names a lease: the node and the id it chose.
type Key struct {
	Node string
	ID   int64
}

// Pool hands out leases of at most a capacity's weight at a time. It is safe for concurrent use.
type Pool struct {
	mu       sync.Mutex
	capacity int64
	used     int64
	queue    *list.List // of *Ticket, oldest first
	tickets  map[Key]*Ticket
	closed   bool
}

// Ticket is one request: waiting, held, or over.
type Ticket struct {
	pool   *Pool
	key    Key
	weight int64
	place  *list.Element // in the queue; nil when held
	ready  chan struct{} // closed when granted or returned
	err    error         // why it wasn't granted; valid after ready
}

// NewPool returns a Pool with a capacity in slots or bytes, at least 1.
func NewPool(capacity int64) *Pool {
	return &Pool{capacity: max(1, capacity), queue: list.New(), tickets: map[Key]*Ticket{}}
}

// Request queues a lease of a weight from 1 and returns at once. Every ticket must be ended by Release, ReleaseAll, Close or a Wait
// whose context ends. It returns ErrTooLarge for what could never be granted, ErrInUse for a key that waits or is held, ErrClosed.
func (p *Pool) Request(key Key, weight int64) (*Ticket, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	weight = max(1, weight)
	switch {
	case p.closed:
		return nil, ErrClosed
	case weight > p.capacity:
		return nil, fmt.Errorf("%w: %d of %d", ErrTooLarge, weight, p.capacity)
	case p.tickets[key] != nil:
		return nil, fmt.Errorf("%w: %s/%d", ErrInUse, key.Node, key.ID)
	}
	t := &Ticket{pool: p, key: key, weight: weight, ready: make(chan struct{})}
	t.place = p.queue.PushBack(t)
	p.tickets[key] = t
	p.grant()
	return t, nil
}

// Wait returns nil once the lease is held. When ctx ends first the request is withdrawn and the context's cause returned; a
// lease granted at that very moment is given back.
func (t *Ticket) Wait(ctx context.Context) error {
	select {
	case <-t.ready:
		return t.err
	case <-ctx.Done():
		t.pool.mu.Lock()
		defer t.pool.mu.Unlock()
		t.pool.end(t, context.Cause(ctx))
		t.pool.grant()
		return context.Cause(ctx)
	}
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

// Close ends every request with ErrClosed and refuses new ones. Leases that are held stay valid.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, t := range p.tickets {
		if t.place != nil {
			p.end(t, ErrClosed)
		}
	}
}

// InUse returns the weight that is held and the number of requests that wait.
func (p *Pool) InUse() (weight int64, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used, p.queue.Len()
}

// end takes a ticket out, whatever its state. The caller holds mu and calls grant afterwards.
func (p *Pool) end(t *Ticket, why error) {
	if p.tickets[t.key] != t {
		return
	}
	delete(p.tickets, t.key)
	if t.place != nil {
		p.queue.Remove(t.place)
		t.place, t.err = nil, why
		close(t.ready)
	} else {
		p.used -= t.weight
	}
}

// grant serves the head of the queue as long as it fits. The caller holds mu.
func (p *Pool) grant() {
	for !p.closed {
		head := p.queue.Front()
		if head == nil {
			return
		}
		t := head.Value.(*Ticket)
		if p.used+t.weight > p.capacity {
			return
		}
		p.queue.Remove(head)
		t.place = nil
		p.used += t.weight
		close(t.ready)
	}
}
