package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// ErrOrphaned ends a node whose launcher is gone: its stdin closed or its stdout broke.
var ErrOrphaned = errors.New("the launcher has ended")

// Link is the node's end of the launcher's pipes. It implements Host, except that its Lease also takes a number of
// bytes.
type Link struct {
	out *event.Writer
	in  *event.Reader

	stopping chan struct{}
	stopOnce sync.Once
	gone     context.CancelCauseFunc

	mu      sync.Mutex
	leases  map[int64]chan struct{} // requested, not granted
	lastID  int64
	members []protocol.Member
	changed chan struct{}
	leased  bool
	budget  int64

	verdicts protocol.Verdicts
	judged   chan struct{} // closed and replaced when verdicts change
}

// NewLink returns a link on the launcher's pipes. It calls gone when the launcher has died.
func NewLink(stdin io.Reader, stdout io.Writer, gone context.CancelCauseFunc) *Link {
	return &Link{
		out: event.NewWriter(stdout), in: event.NewReader(stdin, event.MaxLine),
		stopping: make(chan struct{}), gone: gone,
		leases: map[int64]chan struct{}{}, changed: make(chan struct{}), judged: make(chan struct{}),
	}
}

// Assignment reads the first command, which must be the node's assignment.
func (l *Link) Assignment() (protocol.Start, error) {
	var c protocol.Command
	if err := l.in.Read(&c); err != nil {
		return protocol.Start{}, fmt.Errorf("read the assignment: %w", err)
	}
	if c.Type != protocol.CommandStart {
		return protocol.Start{}, fmt.Errorf("first command is %q, not %q", c.Type, protocol.CommandStart)
	}
	if c.Start == nil {
		return protocol.Start{}, fmt.Errorf("first command is %q with no assignment", c.Type)
	}
	if c.Start.Protocol != protocol.Version {
		return protocol.Start{}, fmt.Errorf("the launcher uses protocol %d, this program %d", c.Start.Protocol, protocol.Version)
	}
	l.members = c.Start.Members
	l.leased, l.budget = c.Start.Leased, c.Start.BudgetBytes
	if c.Start.Verdicts != nil {
		l.verdicts = *c.Start.Verdicts
	}
	return *c.Start, nil
}

// Serve executes commands until stdin closes, and then calls gone. It occupies one goroutine until the process
// ends.
func (l *Link) Serve() {
	for {
		var c protocol.Command
		if err := l.in.Read(&c); err != nil {
			l.gone(fmt.Errorf("%w: %w", ErrOrphaned, err))
			return
		}
		switch {
		case c.Type == protocol.CommandStop:
			l.Stop()
		case c.Type == protocol.CommandMembers:
			l.mu.Lock()
			l.members = c.Members
			close(l.changed)
			l.changed = make(chan struct{})
			l.mu.Unlock()
		case c.Type == protocol.CommandVerdict && c.Verdicts != nil:
			l.mu.Lock()
			l.verdicts = *c.Verdicts
			close(l.judged)
			l.judged = make(chan struct{})
			l.mu.Unlock()
		case c.Type == protocol.CommandBudget:
			l.mu.Lock()
			l.budget = c.BudgetBytes
			l.mu.Unlock()
		case c.Type == protocol.CommandGrant && c.Lease != nil:
			// A missing lease was withdrawn, and so released, while its grant was on the way.
			l.mu.Lock()
			if granted := l.leases[c.Lease.ID]; granted != nil {
				delete(l.leases, c.Lease.ID)
				close(granted)
			}
			l.mu.Unlock()
		}
	}
}

// Emit sends an event to the launcher. An event without a time gets the current time.
func (l *Link) Emit(e event.Event) {
	if e.Time == 0 {
		e.Time = event.Now()
	}
	if err := l.out.Write(e); err != nil {
		l.gone(fmt.Errorf("%w: %w", ErrOrphaned, err))
	}
}

// State implements Host.
func (l *Link) State(state event.State, round int) {
	l.Emit(event.Event{Type: event.TypeState, State: state, RoundIndex: round})
}

// Members implements Host.
func (l *Link) Members() ([]protocol.Member, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.members, l.changed
}

// Verdicts returns the alarm's decisions, and a channel that is closed when they change.
func (l *Link) Verdicts() (protocol.Verdicts, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.verdicts, l.judged
}

// Stop asks the node to stop, as the launcher's command does.
func (l *Link) Stop() { l.stopOnce.Do(func() { close(l.stopping) }) }

// Stopping implements Host.
func (l *Link) Stopping() <-chan struct{} { return l.stopping }

// Budget is the device memory in bytes that the node may use at present, 0 without a budget.
func (l *Link) Budget() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.budget
}

// Lease requests a lease for a phase that needs bytes of device memory, and waits for it as Host specifies.
func (l *Link) Lease(ctx context.Context, phase string, bytes int64) (func(), error) {
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
	l.Emit(event.Event{Type: event.TypeLease, Lease: &event.Lease{ID: id, Phase: phase, Bytes: bytes}})
	var err error
	select {
	case <-granted:
		began := time.Now()
		return sync.OnceFunc(func() { l.release(id, phase, time.Since(began)) }), nil
	case <-l.stopping:
		err = ErrStopped
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	l.mu.Lock()
	delete(l.leases, id)
	l.mu.Unlock()
	l.release(id, phase, 0) // a release withdraws a request as well as a grant
	return nil, err
}

func (l *Link) release(id int64, phase string, held time.Duration) {
	l.Emit(event.Event{Type: event.TypeRelease, Lease: &event.Lease{ID: id, Phase: phase, Seconds: held.Seconds()}})
}
