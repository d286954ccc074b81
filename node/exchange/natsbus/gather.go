package natsbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// Gather collects a round's batches; see Exchange. It subscribes to the announcements of the round, reads the peers' batches
// from the stream one by one, and reads again what is announced. Announcements are only hints: after a reconnect, and
// before it gives up, it looks at everything that is missing. What stays missing it asks for, now and then: the server may have it from
// its owner's journal. The server keeps no state for it.
func (b *Bus) Gather(ctx context.Context, round int, peers []string, barrier exchange.Barrier) ([]*exchange.Received, error) {
	start := time.Now()
	ctx, end, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	g := &gathering{
		bus:       b,
		round:     round,
		collector: exchange.NewCollector(round, b.node, peers, barrier),
		announced: make(map[string]bool),
		wake:      make(chan struct{}, 1),
	}
	hints, err := b.conn.Subscribe(b.subjects.anyShared(round), g.hint)
	if err != nil {
		return nil, fmt.Errorf("gather round %d: %w", round, err)
	}
	defer func() { _ = hints.Unsubscribe() }() // fails only where the connection is gone, and the subscription with it
	if err := g.wait(ctx, start); err != nil {
		return nil, fmt.Errorf("gather round %d: %w", round, err)
	}
	return g.collector.Batches(), nil
}

// Recent returns what peers shared lately; see Exchange.
func (b *Bus) Recent(ctx context.Context, window exchange.Window) ([]*exchange.Received, error) {
	panic("helper A")
}

// gathering is one Gather.
type gathering struct {
	bus       *Bus
	round     int
	collector *exchange.Collector

	mu        sync.Mutex
	announced map[string]bool // subjects, since the last look
	wake      chan struct{}
}

// hint notes an announcement; NATS calls it from a goroutine of its own.
func (g *gathering) hint(message *nats.Msg) {
	g.mu.Lock()
	g.announced[message.Subject] = true
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

func (g *gathering) wait(ctx context.Context, start time.Time) error {
	all, looked := true, false
	backoff := firstBackoff
	asking := wants{at: start.Add(firstWant), next: secondWant}
	for {
		reconnect := g.bus.nextReconnect()
		failure := g.look(ctx, all)
		if all && asking.due(time.Now()) {
			g.ask()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		looked = looked || all && failure == nil
		elapsed := time.Since(start)
		if done, err := g.collector.Done(elapsed, looked); done {
			if err == nil {
				return nil
			}
			if all && failure != nil {
				return fmt.Errorf("%w (last: %v)", err, failure)
			}
			if all {
				return err
			}
			all = true
			continue
		}
		if !g.bus.reachable() {
			return fmt.Errorf("message bus lost: %w", errors.Join(g.bus.conn.LastError(), failure))
		}
		timeout := min(g.collector.Next(elapsed), max(0, time.Until(asking.at)))
		if failure != nil {
			timeout = min(timeout, backoff)
			backoff = min(2*backoff, lastBackoff)
		}
		select {
		case <-ctx.Done():
		case <-g.wake:
			all = failure != nil
		case <-reconnect:
			all, backoff = true, firstBackoff
			asking = wants{at: time.Now().Add(firstWant), next: secondWant}
		case <-time.After(timeout):
			all = true
		}
	}
}

// look reads the batches of the missing peers, of all or of the announced ones. One that can't be read doesn't keep the
// others from being read, unless the server doesn't answer at all.
func (g *gathering) look(ctx context.Context, all bool) error {
	g.mu.Lock()
	announced := g.announced
	g.announced = make(map[string]bool)
	g.mu.Unlock()
	var failure error
	for _, peer := range g.collector.Missing() {
		if !all && !announced[g.bus.subjects.shared(g.round, peer)] {
			continue
		}
		data, err := g.read(ctx, peer)
		switch {
		case err == nil:
			g.collector.Add(peer, data)
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case ctx.Err() != nil:
			return err
		case errors.Is(err, context.DeadlineExceeded):
			g.bus.complain(err)
			return err
		default:
			g.bus.complain(err)
			failure = err
		}
	}
	return failure
}

// ask asks for what is missing. An answer is announced as any batch is.
func (g *gathering) ask() {
	for _, peer := range g.collector.Missing() {
		_ = g.bus.conn.Publish(g.bus.subjects.want(g.round, peer), nil) // lost with the connection, and asked again after it
	}
}

const (
	firstWant  = time.Second // a peer that is about to share needs no archive
	secondWant = 2 * time.Second
	lastWant   = 30 * time.Second
)

// wants says when a Gather asks for what is missing.
type wants struct {
	at   time.Time
	next time.Duration
}

// due tells whether to ask now, and puts the next time off.
func (w *wants) due(now time.Time) bool {
	if now.Before(w.at) {
		return false
	}
	w.at, w.next = now.Add(w.next), min(2*w.next, lastWant)
	return true
}

func (g *gathering) read(ctx context.Context, peer string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	message, err := g.bus.stream.GetLastMsgForSubject(ctx, g.bus.subjects.rollouts(g.round, peer))
	if err != nil {
		return nil, err
	}
	return message.Data, nil
}
