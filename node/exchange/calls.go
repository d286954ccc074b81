package exchange

import (
	"context"
	"sync"
)

// Calls tracks the calls in progress of an Exchange so that Close can end them. The zero value is ready to use. Calls
// is safe for concurrent use.
type Calls struct {
	mu      sync.Mutex
	closed  bool
	next    int
	cancel  map[int]context.CancelCauseFunc
	running sync.WaitGroup
}

// Begin registers a call. Close cancels the returned context with ErrClosed as its cause. The caller must call end.
// After Close, Begin returns ErrClosed.
func (c *Calls) Begin(ctx context.Context) (_ context.Context, end func(), _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	if c.cancel == nil {
		c.cancel = map[int]context.CancelCauseFunc{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	id := c.next
	c.next++
	c.cancel[id] = cancel
	c.running.Add(1)
	return ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.cancel, id)
		cancel(nil)
		c.running.Done()
	}, nil
}

// Close cancels the calls in progress, waits for them to end, and rejects new calls. Calling it again is safe.
func (c *Calls) Close() {
	c.mu.Lock()
	c.closed = true
	for _, cancel := range c.cancel {
		cancel(ErrClosed)
	}
	c.mu.Unlock()
	c.running.Wait()
}
