package lease

import (
	"container/list"
	"context"
)

// Ticket is one request: waiting, held, or over.
type Ticket struct {
	pool  *Pool
	key   Key
	asked int64 // bytes
	bytes int64 // that it counts for while it is held
	held  bool
	place *list.Element // in the pool's queue, or among the held
	ready chan struct{} // closed when granted or returned
	over  chan struct{} // closed when returned
	err   error         // why it wasn't granted; valid after ready
}

// Wait returns nil once the lease is held. When ctx ends first the request is withdrawn and the context's cause
// returned; a lease granted at that very moment is given back.
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

// Over is closed when the lease has been returned, whether it was ever granted or not.
func (t *Ticket) Over() <-chan struct{} { return t.over }

// Bytes is what the lease counts for: what was asked for, or the whole capacity where that is less.
func (t *Ticket) Bytes() int64 {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	if t.held {
		return t.bytes
	}
	return t.pool.need(t)
}

// Entry is a lease in a Snapshot.
type Entry struct {
	Key
	Bytes int64 // it counts for
}

// Snapshot is a pool at one moment.
type Snapshot struct {
	Capacity Capacity
	Bytes    int64   // held
	Held     []Entry // by the order of their grants
	Waiting  []Entry // by the order of their arrival
}

// Snapshot returns who holds and who waits now.
func (p *Pool) Snapshot() Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Snapshot{Capacity: p.capacity, Bytes: p.bytes}
	for e := p.held.Front(); e != nil; e = e.Next() {
		t := e.Value.(*Ticket)
		s.Held = append(s.Held, Entry{t.key, t.bytes})
	}
	for e := p.queue.Front(); e != nil; e = e.Next() {
		t := e.Value.(*Ticket)
		s.Waiting = append(s.Waiting, Entry{t.key, p.need(t)})
	}
	return s
}
