package lease

import (
	"container/list"
	"context"
)

// Ticket is a request that waits, is held, or is over.
type Ticket struct {
	pool  *Pool
	key   Key
	asked int64 // bytes
	bytes int64 // counted while held
	held  bool
	place *list.Element // in the pool's queue or its held list
	ready chan struct{} // closed when granted or returned
	over  chan struct{} // closed when returned
	err   error         // why the lease wasn't granted; valid after ready
}

// Wait returns nil once the lease is held. If ctx ends first, Wait withdraws the request and returns the context's
// cause. It also gives back a lease that was granted at that moment.
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

// Over is closed when the lease has been returned, granted or not.
func (t *Ticket) Over() <-chan struct{} { return t.over }

// Bytes returns the bytes that the lease counts for: the requested bytes, at most the whole capacity.
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
	Bytes int64 // counted
}

// Snapshot is a pool at one moment.
type Snapshot struct {
	Capacity Capacity
	Bytes    int64   // held
	Held     []Entry // in order of grant
	Waiting  []Entry // in order of arrival
}

// Snapshot returns the held and the waiting leases.
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
