package membership

import (
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
)

// bucket limits a rate. It gains rate tokens per second, up to burst. It is not safe for concurrent use.
type bucket struct {
	rate, burst float64
	tokens      float64
	at          time.Time // when tokens was updated; zero: never, and the bucket is full
}

func newBucket(rate, burst float64) bucket { return bucket{rate: rate, burst: burst} }

// wait returns how long it takes until the bucket has n tokens. More than burst tokens need only a full bucket.
func (b *bucket) wait(now time.Time, n float64) time.Duration {
	if b.at.IsZero() {
		b.tokens = b.burst
	} else if elapsed := now.Sub(b.at); elapsed > 0 { // a clock that was set back adds nothing
		b.tokens = min(b.burst, b.tokens+elapsed.Seconds()*b.rate)
	}
	b.at = now
	if need := min(n, b.burst); b.tokens < need {
		return max(1, units.Seconds((need-b.tokens)/b.rate)) // at least a nanosecond, because 0 means that the tokens are there
	}
	return 0
}

// take takes n tokens, or returns how long it takes until there are n.
func (b *bucket) take(now time.Time, n float64) (wait time.Duration) {
	if wait = b.wait(now, n); wait == 0 {
		b.tokens -= n
	}
	return wait
}

// charge takes n tokens even if there are fewer. It returns how long it takes until the balance is no longer negative.
// The debt is at most burst.
func (b *bucket) charge(now time.Time, n float64) (wait time.Duration) {
	b.wait(now, 0)
	b.tokens = max(b.tokens-n, -b.burst)
	if b.tokens < 0 {
		return max(1, units.Seconds(-b.tokens/b.rate))
	}
	return 0
}

// resize changes the rate and the burst.
func (b *bucket) resize(rate, burst float64) {
	if b.at.IsZero() || burst == b.burst {
		b.rate, b.burst = rate, burst
		return
	}
	b.tokens = min(b.tokens+max(0, burst-b.burst), burst)
	b.rate, b.burst = rate, burst
}

// rates holds the buckets of one worker.
type rates struct{ requests, visits, offers, events, bytes, kept, drawn bucket }

// Limits of a worker's traffic: a rate per second and a burst.
const (
	requestRate, requestBurst = 20, 100
	visitRate, visitBurst     = 0.2, 20   // reported and recorded changes: arrivals and the nodes' assignments
	offerRate, offerBurst     = 4, 16     // per node
	eventRate, eventBurst     = 200, 20e3 // the burst allows delivery after an outage
	nodeEventRate             = 50        // per node, if that is more
	byteRate, byteBurst       = 4 << 20, 32 << 20
)

// keptRate is the long-term limit of a worker's events in bytes per second: 5.7 GB a day. The database keeps events
// forever. Without this limit, an untrusted sender could fill the disk within the other rates. An honest node's round
// is about 10 kB. A worker can save up to an hour's allowance. So after an hour's outage, only the other rates limit
// the delivery.
const keptRate, keptBurst = 64 << 10, 3600 * keptRate

func newRates() *rates {
	return &rates{
		requests: newBucket(requestRate, requestBurst), visits: newBucket(visitRate, visitBurst), offers: newBucket(offerRate, offerBurst),
		events: newBucket(eventRate, eventBurst), bytes: newBucket(byteRate, byteBurst),
		kept: newBucket(keptRate, keptBurst), drawn: newBucket(drawnRate, drawnBurst),
	}
}

// resize adapts the rates to the number of the worker's nodes.
func (r *rates) resize(n int) {
	n = max(n, 1)
	r.offers.resize(offerRate*float64(n), offerBurst*float64(n))
	r.events.resize(max(eventRate, nodeEventRate*float64(n)), eventBurst)
}
