package natsbus

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	keptRounds   = 2               // whose offers are kept: nodes at a barrier are one round apart
	reofferAfter = 2 * time.Second // at most, so that a swarm that comes back doesn't do so at once
	reofferLimit = 2 * time.Minute
)

// offered is a batch that the coordinator has taken.
type offered struct {
	round int
	data  []byte
}

// offers are a worker's newest batches that the coordinator took. It says that they are on its disk, and yet its disk
// may be lost, or the stream made anew: the batches are offered again whenever the connection comes back, and those
// that are still there change nothing.
type offers struct {
	mu   sync.Mutex
	kept []offered
}

// keep notes a batch that was taken.
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

// offerAgain offers what is kept each time the connection is back, until Close.
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
				return again && b.conn.IsConnected(), err // another connection begins anew
			})
			cancel()
			if err != nil {
				b.dialer.logger.Debug("rollouts not offered again", "round", batch.round, "error", err)
			}
		}
	}
}
