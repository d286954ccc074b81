package natsbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sapo-swarm/swarm/node/exchange"
)

const (
	connectTimeout = 2 * time.Second
	reconnectWait  = 100 * time.Millisecond
	requestTimeout = 5 * time.Second // for one request; the callers' loops retry
	firstBackoff   = 50 * time.Millisecond
	lastBackoff    = time.Second
	complainEvery  = time.Second
)

// Options identify a node and its run, and select the server to dial.
type Options struct {
	URL         string // nats://host:port, several separated by commas; tls://host:port?fp=FINGERPRINT for a coordinator with TLS
	Token       string // the bus's token, or the worker's secret
	Run         string
	Node        string
	Worker      string       // worker that runs the node; its batches are offered to the coordinator. Empty: the coordinator's host
	CAFile      string       // for a server without a fingerprint; empty: the system's CAs
	Credentials string       // file, for an external cluster
	Logger      *slog.Logger // may be nil
}

// Bus is a node's Exchange over JetStream. It reconnects for as long as it is open.
type Bus struct {
	run      string
	node     string
	worker   string // empty: on the coordinator's host
	subjects subjects
	dialer   dialer
	conn     *nats.Conn
	js       jetstream.JetStream
	link     *link
	caller   caller        // for a worker
	patience time.Duration // for one message of an answer
	oneByOne atomic.Bool   // the server is too old for queries of several batches
	arrivals arrivals
	offers   offers // for a worker

	calls exchange.Calls

	mu         sync.Mutex
	complained time.Time // when the last problem was reported
}

var _ exchange.Exchange = (*Bus)(nil)

// Dial connects to the server and finds the run's stream. Until ctx ends it waits for a server or a stream that is
// missing. A wrong token, or a certificate other than the pinned one, is an error at once.
func Dial(ctx context.Context, options Options) (*Bus, error) {
	s, err := newSubjects(options.Run)
	if err != nil {
		return nil, fmt.Errorf("join the message bus: %w", err)
	}
	if err := checkName("node", options.Node); err != nil {
		return nil, fmt.Errorf("join the message bus: %w", err)
	}
	where, err := parseAddress(options.URL)
	if err != nil {
		return nil, fmt.Errorf("join the message bus: %w", err)
	}
	b := newBus(options, s, where)
	if b.conn, err = b.dialer.dial(ctx); err != nil {
		return nil, fmt.Errorf("join the message bus at %s: %w", where, err)
	}
	b.caller = caller{conn: b.conn, link: b.link, worker: token(options.Worker), secret: options.Token}
	if err := b.findStream(ctx); err != nil {
		b.conn.Close()
		return nil, fmt.Errorf("join run %s at %s: %w", options.Run, where, err)
	}
	if b.worker != "" {
		go b.offerAgain()
	}
	return b, nil
}

func newBus(options Options, s subjects, where address) *Bus {
	logger := options.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	b := &Bus{
		run:      options.Run,
		node:     options.Node,
		worker:   options.Worker,
		subjects: s,
		patience: requestTimeout,
		arrivals: newArrivals(),
		link:     newLink(),
	}
	b.dialer = dialer{
		address: where, name: options.Node, worker: options.Worker, caFile: options.CAFile, credentials: options.Credentials,
		link: b.link, logger: logger.With("run", options.Run, "node", options.Node),
	}
	if options.Worker == "" {
		b.dialer.token = options.Token
	} else {
		b.dialer.secret, b.patience = options.Token, callTimeout
	}
	return b
}

// findStream waits for the run's stream and records its last sequence. Later sequences came after this node joined.
func (b *Bus) findStream(ctx context.Context) error {
	js, err := jetstream.New(b.conn)
	if err != nil {
		return err
	}
	b.js = js
	return b.persist(ctx, func() (bool, error) {
		if b.worker != "" {
			_, err := b.fetch(ctx, query{LastOne: b.subjects.anyRollouts()}, func(newest stored) { b.arrivals.joined = newest.sequence })
			return b.mayAsk(err), err
		}
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		stream, err := js.Stream(ctx, b.subjects.stream)
		if err == nil {
			b.arrivals.joined = stream.CachedInfo().State.LastSeq
		}
		return b.reachable(), err
	})
}

// Publish shares the node's batch; see Exchange. The batch must be from the bus's own node.
func (b *Bus) Publish(ctx context.Context, batch exchange.Batch) error {
	if batch.Node != b.node {
		return fmt.Errorf("%w: of node %q, published by %q", exchange.ErrInvalid, batch.Node, b.node)
	}
	data, err := exchange.Encode(batch)
	if err != nil {
		return err
	}
	ctx, end, err := b.calls.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	attempt := func() (bool, error) { return b.store(ctx, batch.Round, data) }
	if b.worker != "" {
		attempt = func() (bool, error) { return b.offer(ctx, batch.Round, data) }
	}
	if err := b.persist(ctx, attempt); err != nil {
		return fmt.Errorf("share round %d: %w", batch.Round, err)
	}
	if b.worker != "" {
		b.offers.keep(batch.Round, data)
	}
	return nil
}

// persist retries an attempt. For a worker that was shut out, its error says why.
func (b *Bus) persist(ctx context.Context, attempt func() (again bool, err error)) error {
	err := retry(ctx, attempt)
	if err != nil && b.worker != "" {
		return b.explain(ctx, err)
	}
	return err
}

// store makes one attempt to store a batch. again reports whether another attempt could succeed.
func (b *Bus) store(ctx context.Context, round int, data []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var ack *jetstream.PubAck
	err = b.link.during(ctx, func(ctx context.Context) (err error) {
		ack, err = b.js.Publish(ctx, b.subjects.rollouts(round, b.node), data, jetstream.WithExpectLastSequencePerSubject(0))
		return err
	})
	switch {
	case err == nil:
		b.arrivals.note(round, ack.Sequence)
		return false, nil
	case errors.Is(err, nats.ErrMaxPayload):
		return false, fmt.Errorf("%d bytes, but the server accepts at most %d per message; set its max_payload to 9MB: %w",
			len(data), b.conn.MaxPayload(), err)
	case takenAlready(err):
		return false, nil // shared before, perhaps by an attempt whose answer was lost
	}
	// The server may repair the stream, whether it is full, damaged or out of disk space.
	b.complain(err)
	return b.reachable(), err
}

// complain reports a problem with the stream to the server, at most once a second. It does nothing for a worker, whose
// own connection may be the cause.
func (b *Bus) complain(err error) {
	if b.worker != "" {
		return
	}
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
	_ = b.conn.Publish(b.subjects.trouble(), fmt.Appendf(nil, "%.200s", err)) // lost without a connection: then there are bigger problems
}

// Close cancels the calls in progress with ErrClosed, waits for them, and disconnects. Calling it again is safe.
func (b *Bus) Close() error {
	b.calls.Close()
	b.conn.Close()
	return nil
}

// reachable returns false once the connection is closed for good. That happens if a restarted server rejects the token.
func (b *Bus) reachable() bool { return !b.conn.IsClosed() }

// retry calls attempt until it succeeds, reports that a retry can't help, or ctx ends. In the last case it returns the
// cause of ctx's end together with the last failure.
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
