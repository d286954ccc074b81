package natsbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// Gather collects a round's batches; see Exchange. It reads from the stream what is there of all peers at once, then
// subscribes to the announcements of those that are missing, and reads what is announced, once all are, together.
// Announcements are only hints: after a reconnect, and before it gives up, it looks at everything that is missing. What
// stays missing it asks for, now and then: the server may have it from its owner's journal. The server keeps no state
// for it, and its cost grows with the peers asked for, not with the swarm.
func (b *Bus) Gather(ctx context.Context, round int, peers []string, barrier exchange.Barrier) ([]*exchange.Received, error) {
	start := time.Now()
	ctx, end, err := b.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	g := &gathering{
		bus:       b,
		round:     round,
		deadline:  barrier.Deadline,
		collector: exchange.NewCollector(round, b.node, peers, barrier),
		byShared:  make(map[string]string, len(peers)),
		byStored:  make(map[string]string, len(peers)),
		hints:     make(chan *nats.Msg, 2*len(peers)+hintRoom),
		announced: make(map[string]bool),
	}
	for _, peer := range peers {
		g.byShared[b.subjects.shared(round, peer)] = peer
		g.byStored[b.subjects.rollouts(round, peer)] = peer
	}
	defer g.unsubscribe()
	if err := g.wait(ctx, start); err != nil {
		return nil, fmt.Errorf("gather round %d: %w", round, b.explain(ctx, err))
	}
	return g.collector.Batches(), nil
}

const (
	hintEach = 128 // up to so many missing peers are heard each for itself, more by a wildcard, which the whole swarm answers
	hintRoom = 64  // announcements that are no use, of a repeat
)

// gathering is one Gather.
type gathering struct {
	bus       *Bus
	round     int
	deadline  time.Duration // the barrier's
	collector *exchange.Collector
	byShared  map[string]string // peers by their announcements' subject
	byStored  map[string]string // and by their batches'

	hints     chan *nats.Msg
	heard     []*nats.Subscription
	announced map[string]bool // peers, of whom nothing has been read since
}

// subscribe asks for the announcements of those that are missing.
func (g *gathering) subscribe() error {
	missing := g.collector.Missing()
	subjects := []string{g.bus.subjects.anyShared(g.round)}
	if len(missing) <= hintEach {
		subjects = subjects[:0]
		for _, peer := range missing {
			subjects = append(subjects, g.bus.subjects.shared(g.round, peer))
		}
	}
	for _, subject := range subjects {
		heard, err := g.bus.conn.ChanSubscribe(subject, g.hints)
		if err != nil {
			return err
		}
		g.heard = append(g.heard, heard)
	}
	return nil
}

func (g *gathering) unsubscribe() {
	for _, heard := range g.heard {
		_ = heard.Unsubscribe() // fails only where the connection is gone, and the subscription with it
	}
}

// onHint notes announcements, this one and all that have come.
func (g *gathering) onHint(hint *nats.Msg) {
	for {
		if peer, asked := g.byShared[hint.Subject]; asked {
			g.announced[peer] = true
		}
		select {
		case hint = <-g.hints:
		default:
			return
		}
	}
}

func (g *gathering) wait(ctx context.Context, start time.Time) error {
	all, looked := true, false
	backoff := firstBackoff
	asking := wants{at: start.Add(firstWant), next: secondWant}
	for {
		reconnect := g.bus.link.next()
		failure := g.lookInTime(ctx, all, start)
		if all && asking.due(time.Now()) {
			g.ask()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		looked = looked || all && (failure == nil || g.bus.worker != "") // from far away, what can't be read in time isn't there
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
		if final := g.lost(failure); final != nil {
			return final
		}
		if g.heard == nil && failure == nil {
			if err := g.subscribe(); err != nil && g.bus.reachable() {
				return err
			}
			continue // with a look at what came before the subscription
		}
		timeout := min(g.collector.Next(elapsed), max(0, time.Until(asking.at)))
		if failure != nil || len(g.announced) > 0 { // announced and not there: another replica has it, this one soon
			timeout = min(timeout, backoff)
			backoff = min(2*backoff, lastBackoff)
		}
		over := time.After(timeout)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				waiting = false
			case hint := <-g.hints:
				g.onHint(hint)
				all, waiting = failure != nil, !g.enough()
			case <-reconnect:
				all, backoff, waiting = true, firstBackoff, false
				asking = wants{at: time.Now().Add(firstWant), next: secondWant}
			case <-over:
				all, waiting = true, false
			}
		}
	}
}

// enough tells whether what was announced is to be read now. Of this host's nodes it is once all of them have
// announced, in one query rather than one a peer: a barrier has no use for a part. A worker's way is long, so that it
// reads what there is at once.
func (g *gathering) enough() bool {
	return g.bus.worker != "" || len(g.announced) == len(g.collector.Missing())
}

// lookInTime is look. A worker's way may be cut: what it can't read before the barrier's deadline it does without.
func (g *gathering) lookInTime(ctx context.Context, all bool, start time.Time) error {
	if g.bus.worker == "" {
		return g.look(ctx, all)
	}
	left := max(g.deadline-time.Since(start), leastLook)
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return g.look(ctx, all)
}

// leastLook is what one look may take though the deadline has passed: a round trip to the other side of the world, and
// some.
const leastLook = time.Second

// lost returns why a Gather can't go on: the connection won't come back, or the worker was shut out.
func (g *gathering) lost(failure error) error {
	var out outcast
	if err := asOutcast(failure); errors.As(err, &out) {
		return out
	}
	if !g.bus.reachable() {
		return fmt.Errorf("message bus lost: %w", errors.Join(g.bus.conn.LastError(), failure))
	}
	return nil
}

// look reads the batches of the missing peers, of all or of the announced ones. Where the server can't give them at
// once, it is asked for each, so that one that can't be read doesn't keep the others from being read, unless the server
// doesn't answer at all.
func (g *gathering) look(ctx context.Context, all bool) error {
	var subjects []string
	for _, peer := range g.collector.Missing() {
		if all || g.announced[peer] {
			subjects = append(subjects, g.bus.subjects.rollouts(g.round, peer))
		}
	}
	err := g.bus.lasts(ctx, subjects, 0, func(found stored) {
		if peer, asked := g.byStored[found.subject]; asked {
			g.collector.Add(peer, found.data)
			delete(g.announced, peer)
		}
	})
	if err != nil && ctx.Err() == nil {
		g.bus.complain(err)
	}
	return err
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
