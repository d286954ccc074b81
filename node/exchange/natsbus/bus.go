package natsbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sapo-swarm/swarm/node/exchange"
)

const (
	connectTimeout = 2 * time.Second
	reconnectWait  = 100 * time.Millisecond
	requestTimeout = 5 * time.Second // of one request; the callers' loops ask again
	firstBackoff   = 50 * time.Millisecond
	lastBackoff    = time.Second
	complainEvery  = time.Second
)

// Options says which node of which run dials which server.
type Options struct {
	URL    string // nats://host:port, or several with commas
	Token  string
	Run    string
	Node   string
	Logger *slog.Logger // may be nil
}

// Bus is a node's Exchange over JetStream. A lost connection is dialled again for as long as the Bus is open.
type Bus struct {
	node     string
	subjects subjects
	conn     *nats.Conn
	js       jetstream.JetStream
	stream   jetstream.Stream

	mu          sync.Mutex
	closed      bool
	reconnected chan struct{} // closed and replaced at each reconnect
	complained  time.Time     // when the last trouble was told
	nextCall    int
	calls       map[int]context.CancelCauseFunc // in progress
	running     sync.WaitGroup
}

var _ exchange.Exchange = (*Bus)(nil)

// Dial connects to the server and finds the run's stream. A server or a stream that isn't there yet is waited for until
// ctx ends; a wrong token is an error at once.
func Dial(ctx context.Context, options Options) (*Bus, error) {
	s, err := newSubjects(options.Run)
	if err != nil {
		return nil, fmt.Errorf("join the message bus: %w", err)
	}
	if err := checkName("node", options.Node); err != nil {
		return nil, fmt.Errorf("join the message bus: %w", err)
	}
	b := &Bus{
		node:        options.Node,
		subjects:    s,
		reconnected: make(chan struct{}),
		calls:       make(map[int]context.CancelCauseFunc),
	}
	if err := b.connect(ctx, options); err != nil {
		return nil, fmt.Errorf("join the message bus at %s: %w", options.URL, err)
	}
	if err := b.findStream(ctx); err != nil {
		b.conn.Close()
		return nil, fmt.Errorf("join run %s at %s: %w", options.Run, options.URL, err)
	}
	return b, nil
}

func (b *Bus) connect(ctx context.Context, options Options) error {
	logger := options.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	logger = logger.With("run", options.Run, "node", options.Node)
	return retry(ctx, func() (bool, error) {
		var err error
		b.conn, err = nats.Connect(options.URL,
			nats.Name(options.Node),
			nats.Token(options.Token),
			nats.Timeout(connectTimeout),
			nats.MaxReconnects(-1),
			nats.ReconnectWait(reconnectWait),
			nats.ReconnectJitter(reconnectWait, reconnectWait),
			nats.ReconnectBufSize(-1), // requests fail while there is no connection; the loops here ask again
			nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
				if err != nil {
					logger.Warn("message bus lost, dialling again", "error", err)
				}
			}),
			nats.ReconnectHandler(func(*nats.Conn) {
				logger.Info("message bus is back")
				b.announceReconnect()
			}),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
				logger.Warn("message bus", "error", err)
			}),
		)
		if errors.Is(err, nats.ErrAuthorization) {
			return false, fmt.Errorf("wrong token: %w", err)
		}
		return true, err
	})
}

func (b *Bus) findStream(ctx context.Context) error {
	var err error
	if b.js, err = jetstream.New(b.conn); err != nil {
		return err
	}
	return retry(ctx, func() (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		b.stream, err = b.js.Stream(ctx, b.subjects.stream)
		return b.reachable(), err
	})
}

// Publish shares the node's batch; see Exchange. The batch must be the bus's own node's.
func (b *Bus) Publish(ctx context.Context, batch exchange.Batch) error {
	if batch.Node != b.node {
		return fmt.Errorf("%w: of node %q, published by %q", exchange.ErrInvalid, batch.Node, b.node)
	}
	data, err := exchange.Encode(batch)
	if err != nil {
		return err
	}
	ctx, end, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	subject := b.subjects.rollouts(batch.Round, batch.Node)
	if err := retry(ctx, func() (bool, error) { return b.store(ctx, subject, data) }); err != nil {
		return fmt.Errorf("share round %d: %w", batch.Round, err)
	}
	return nil
}

// store makes one attempt to store a batch and tells whether another one could succeed where it failed.
func (b *Bus) store(ctx context.Context, subject string, data []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = b.js.Publish(ctx, subject, data, jetstream.WithExpectLastSequencePerSubject(0))
	var refused *jetstream.APIError
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, nats.ErrMaxPayload):
		return false, fmt.Errorf("%d bytes, and the server takes %d a message; set its max_payload to 9MB: %w",
			len(data), b.conn.MaxPayload(), err)
	case errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
		return false, nil // shared before, perhaps by an attempt whose answer was lost
	}
	// Whatever is wrong with the stream, it is full or its disk, the server may mend it.
	b.complain(err)
	return b.reachable(), err
}

// complain tells the server of a trouble with the stream, once a second at most.
func (b *Bus) complain(err error) {
	b.mu.Lock()
	now := time.Now()
	again := now.Sub(b.complained) < complainEvery
	if !again {
		b.complained = now
	}
	b.mu.Unlock()
	if again || !b.conn.IsConnected() {
		return
	}
	_ = b.conn.Publish(b.subjects.trouble(), fmt.Appendf(nil, "%.200s", err)) // lost where the connection is: then there is more to mend
}

// Close ends calls in progress with ErrClosed, waits for them, and disconnects. It can be called again.
func (b *Bus) Close() error {
	b.mu.Lock()
	b.closed = true
	for _, cancel := range b.calls {
		cancel(exchange.ErrClosed)
	}
	b.mu.Unlock()
	b.running.Wait()
	b.conn.Close()
	return nil
}

// begin registers a call, so that Close can end it. end must be called.
func (b *Bus) begin(ctx context.Context) (_ context.Context, end func(), _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, exchange.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	id := b.nextCall
	b.nextCall++
	b.calls[id] = cancel
	b.running.Add(1)
	return ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.calls, id)
		cancel(nil)
		b.running.Done()
	}, nil
}

// reachable is false once the connection won't come back by itself, which is when a server that restarted refuses the token.
func (b *Bus) reachable() bool { return !b.conn.IsClosed() }

func (b *Bus) announceReconnect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.reconnected)
	b.reconnected = make(chan struct{})
}

// nextReconnect returns a channel that is closed at the next reconnect.
func (b *Bus) nextReconnect() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reconnected
}

// retry calls attempt until it succeeds or says that trying again is of no use, or until ctx ends; then it
// returns the cause of that end with the last failure.
func retry(ctx context.Context, attempt func() (again bool, err error)) error {
	for backoff := firstBackoff; ; backoff = min(2*backoff, lastBackoff) {
		again, err := attempt()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil && !again {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %v)", context.Cause(ctx), err)
		case <-time.After(backoff):
		}
	}
}
