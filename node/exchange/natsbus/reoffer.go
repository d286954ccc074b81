package natsbus

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	keptRounds   = 2               // rounds with kept offers: nodes at a barrier are at most one round apart
	reofferAfter = 2 * time.Second // maximum random delay, so that a swarm doesn't offer everything at once after an outage
	reofferLimit = 2 * time.Minute
)

// offered is a batch that the coordinator has accepted.
type offered struct {
	round int
	data  []byte
}

// offers holds a worker's newest accepted batches. The coordinator has them on disk, but its disk may be lost or its
// stream created again. So the worker offers them again after each reconnect. Repeats change nothing.
type offers struct {
	mu   sync.Mutex
	kept []offered
}

// keep records an accepted batch.
func (o *offers) keep(round int, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, offered{round, data})
	if len(o.kept) > keptRounds {
		o.kept = append([]offered(nil), o.kept[len(o.kept)-keptRounds:]...)
	}
}

func (o *offers) all() []offered {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]offered(nil), o.kept...)
}

// offerAgain offers the kept batches after each reconnect, until Close.
func (b *Bus) offerAgain() {
	ctx, end, err := b.calls.Begin(context.Background())
	if err != nil {
		return
	}
	defer end()
	changed := b.link.next()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		changed = b.link.next()
		if !b.conn.IsConnected() {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			continue
		case <-time.After(rand.N(reofferAfter)):
		}
		for _, batch := range b.offers.all() {
			within, cancel := context.WithTimeout(ctx, reofferLimit)
			err := retry(within, func() (bool, error) {
				again, err := b.offer(within, batch.round, batch.data)
				return again && b.conn.IsConnected(), err // after a reconnect, the loop starts over
			})
			cancel()
			if err != nil {
				b.dialer.logger.Debug("rollouts not offered again", "round", batch.round, "error", err)
			}
		}
	}
}
