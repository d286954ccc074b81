package natsbus

import (
	"context"
	"errors"
	"sync"
)

// errInterrupted reports that the connection was lost or replaced. Answers to requests over the old connection will not
// arrive.
var errInterrupted = errors.New("the connection was interrupted")

// link signals losses and recoveries of a connection.
type link struct {
	mu      sync.Mutex
	changed chan struct{}
}

func newLink() *link { return &link{changed: make(chan struct{})} }

// change signals that the connection was lost or is back.
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

// during calls request with a context that also ends when the connection changes.
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
