package natsbus

import (
	"context"
	"errors"
	"sync"
)

// errInterrupted says that the connection was lost, or is another one: an answer to what was asked over the old one
// won't come.
var errInterrupted = errors.New("the connection was interrupted")

// link tells of a connection's losses and returns.
type link struct {
	mu      sync.Mutex
	changed chan struct{}
}

func newLink() *link { return &link{changed: make(chan struct{})} }

// change says that the connection was lost, or is there again.
func (l *link) change() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

// next returns a channel that is closed at the next change.
func (l *link) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// during calls a request with a context that ends when the connection changes, too.
func (l *link) during(ctx context.Context, request func(context.Context) error) error {
	within, cancel := context.WithCancel(ctx)
	changed := l.next()
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-changed:
			cancel()
		case <-within.Done():
		}
	})
	err := request(within)
	interrupted := within.Err() != nil && ctx.Err() == nil
	cancel()
	watching.Wait()
	if err != nil && interrupted {
		return errInterrupted
	}
	return err
}
