package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// ErrOrphaned ends a node whose launcher is gone: its stdin closed or its stdout broke.
var ErrOrphaned = errors.New("the launcher is gone")

// Link is the node's end of the launcher's pipes; it is the Host of a node in a process of its own.
type Link struct {
	out *event.Writer
	in  *event.Reader

	stopping chan struct{}
	stopOnce sync.Once
	gone     context.CancelCauseFunc

	mu      sync.Mutex
	leases  map[int64]chan struct{} // asked for, not granted
	lastID  int64
	peers   []string
	changed chan struct{}
	leased  bool
}

// NewLink returns a link on the launcher's pipes. gone is called when the launcher has died.
func NewLink(stdin io.Reader, stdout io.Writer, gone context.CancelCauseFunc) *Link {
	return &Link{
		out: event.NewWriter(stdout), in: event.NewReader(stdin, event.MaxLine),
		stopping: make(chan struct{}), gone: gone,
		leases: map[int64]chan struct{}{}, changed: make(chan struct{}),
	}
}

// Assignment reads the first line: what this node is to do.
func (l *Link) Assignment() (event.Start, error) {
	var c event.Command
	if err := l.in.Read(&c); err != nil {
		return event.Start{}, fmt.Errorf("read the assignment: %w", err)
	}
	if c.Type != event.CommandStart || c.Start == nil {
		return event.Start{}, fmt.Errorf("first command is %q, not %q", c.Type, event.CommandStart)
	}
	if c.Start.Protocol != event.Protocol {
		return event.Start{}, fmt.Errorf("launcher speaks protocol %d, this program %d", c.Start.Protocol, event.Protocol)
	}
	l.peers = c.Start.Peers
	l.leased = c.Start.Leased
	return *c.Start, nil
}

// Serve obeys commands until stdin closes; then it calls gone. It holds one goroutine for the process's life.
func (l *Link) Serve() {
	for {
		var c event.Command
		if err := l.in.Read(&c); err != nil {
			l.gone(fmt.Errorf("%w: %w", ErrOrphaned, err))
			return
		}
		switch {
		case c.Type == event.CommandStop:
			l.stopOnce.Do(func() { close(l.stopping) })
		case c.Type == event.CommandPeers:
			l.mu.Lock()
			l.peers = c.Peers
			close(l.changed)
			l.changed = make(chan struct{})
			l.mu.Unlock()
		case c.Type == event.CommandGrant && c.Lease != nil:
			l.mu.Lock()
			granted := l.leases[c.Lease.ID]
			delete(l.leases, c.Lease.ID)
			l.mu.Unlock()
			if granted != nil {
				close(granted)
			} else {
				// Asked for and given up meanwhile: give it back.
				l.Emit(event.Event{Type: event.TypeRelease, Lease: &event.Lease{ID: c.Lease.ID}})
			}
		}
	}
}

// Emit sends an event to the launcher.
func (l *Link) Emit(e event.Event) {
	e.Time = float64(time.Now().UnixMicro()) / 1e6
	if err := l.out.Write(e); err != nil {
		l.gone(fmt.Errorf("%w: %w", ErrOrphaned, err))
	}
}

// State implements Host.
func (l *Link) State(state event.State, round int) {
	l.Emit(event.Event{Type: event.TypeState, State: state, RoundIndex: round})
}

// Peers implements Host.
func (l *Link) Peers() ([]string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peers, l.changed
}

// Stopping implements Host.
func (l *Link) Stopping() <-chan struct{} { return l.stopping }

// Lease implements Host.
func (l *Link) Lease(ctx context.Context, phase string) (func(), error) {
	select {
	case <-l.stopping:
		return nil, ErrStopped
	default:
	}
	if !l.leased {
		return func() {}, nil
	}
	granted := make(chan struct{})
	l.mu.Lock()
	l.lastID++
	id := l.lastID
	l.leases[id] = granted
	l.mu.Unlock()
	l.Emit(event.Event{Type: event.TypeLease, Lease: &event.Lease{ID: id, Phase: phase}})
	var began time.Time
	release := sync.OnceFunc(func() {
		l.Emit(event.Event{Type: event.TypeRelease, Lease: &event.Lease{ID: id, Phase: phase, Seconds: time.Since(began).Seconds()}})
	})
	select {
	case <-granted:
		began = time.Now()
		return release, nil
	case <-l.stopping:
		return nil, l.giveUp(id, granted, release, ErrStopped)
	case <-ctx.Done():
		return nil, l.giveUp(id, granted, release, context.Cause(ctx))
	}
}

// giveUp withdraws a request; a grant that came at the same moment is returned.
func (l *Link) giveUp(id int64, granted <-chan struct{}, release func(), why error) error {
	l.mu.Lock()
	delete(l.leases, id)
	l.mu.Unlock()
	select {
	case <-granted:
		release()
	default:
	}
	return why
}
