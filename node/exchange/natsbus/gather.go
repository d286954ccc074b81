package natsbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// Gather collects a round's batches; see Exchange. First it reads the available batches of all peers in one query. Then
// it subscribes to the announcements of missing batches, and reads announced batches together. Announcements are only
// hints: after a reconnect, and before it gives up, Gather queries everything that is missing. From time to time it
// also asks for missing batches, because the server may find them in the owner's journal. The server keeps no state for
// a Gather. Its cost grows with the number of peers, not with the size of the swarm.
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
	hintEach = 128 // up to this many missing peers, one subscription each; beyond, one wildcard for the whole swarm
	hintRoom = 64  // room for repeated announcements
)

// gathering is the state of one Gather.
type gathering struct {
	bus       *Bus
	round     int
	deadline  time.Duration // the barrier's
	collector *exchange.Collector
	byShared  map[string]string // peers by the subject of their announcements
	byStored  map[string]string // peers by the subject of their batches

	hints     chan *nats.Msg
	heard     []*nats.Subscription
	announced map[string]bool // peers with an announced batch that has not been read
}

// subscribe subscribes to the announcements of missing peers.
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
		_ = heard.Unsubscribe() // fails only if the connection, and so the subscription, is gone
	}
}

// onHint records this announcement and all others in the queue.
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
		looked = looked || all && (failure == nil || g.bus.worker != "") // a worker's node treats batches that it can't read in time as missing
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
			continue // look again for batches that came before the subscription
		}
		timeout := min(g.collector.Next(elapsed), max(0, time.Until(asking.at)))
		if failure != nil || len(g.announced) > 0 { // announced but not readable: another replica has it, this one will soon
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

// enough reports whether to read the announced batches now. A node on the coordinator's host waits until all batches
// have been announced, and reads them in one query. A worker's node reads each at once, because its connection is slow.
func (g *gathering) enough() bool {
	return g.bus.worker != "" || len(g.announced) == len(g.collector.Missing())
}

// lookInTime calls look. A worker's connection may be cut, so its look ends at the barrier's deadline.
func (g *gathering) lookInTime(ctx context.Context, all bool, start time.Time) error {
	if g.bus.worker == "" {
		return g.look(ctx, all)
	}
	left := max(g.deadline-time.Since(start), leastLook)
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return g.look(ctx, all)
}

// leastLook is the minimum time of one look, even after the deadline: more than a round trip around the world.
const leastLook = time.Second

// lost returns why a Gather can't continue: the connection is closed for good, or the worker was shut out.
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

// look reads the batches of the missing peers: of all, or of those that have been announced. If the server doesn't
// support queries of several batches, look reads one batch at a time.
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

// ask requests the missing batches. Restored batches are announced like any others.
func (g *gathering) ask() {
	for _, peer := range g.collector.Missing() {
		_ = g.bus.conn.Publish(g.bus.subjects.want(g.round, peer), nil) // lost without a connection, and repeated after a reconnect
	}
}

const (
	firstWant  = time.Second // gives a peer that is about to share time to do so
	secondWant = 2 * time.Second
	lastWant   = 30 * time.Second
)

// wants schedules a Gather's requests for missing batches.
type wants struct {
	at   time.Time
	next time.Duration
}

// due reports whether to ask now, and schedules the next time.
func (w *wants) due(now time.Time) bool {
	if now.Before(w.at) {
		return false
	}
	w.at, w.next = now.Add(w.next), min(2*w.next, lastWant)
	return true
}
