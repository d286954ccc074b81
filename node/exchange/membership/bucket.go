package membership

import (
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
)

// bucket bounds a rate: it fills with rate tokens a second up to burst. It is not safe for concurrent use.
type bucket struct {
	rate, burst float64
	tokens      float64
	at          time.Time // when tokens was right; zero: never, it is full
}

func newBucket(rate, burst float64) bucket { return bucket{rate: rate, burst: burst} }

// wait is how long it is until there are n tokens. What is above the burst is given once the bucket is full.
func (b *bucket) wait(now time.Time, n float64) time.Duration {
	if b.at.IsZero() {
		b.tokens = b.burst
	} else if elapsed := now.Sub(b.at); elapsed > 0 { // a clock that was put back fills nothing
		b.tokens = min(b.burst, b.tokens+elapsed.Seconds()*b.rate)
	}
	b.at = now
	if need := min(n, b.burst); b.tokens < need {
		return max(1, units.Seconds((need-b.tokens)/b.rate)) // less than a nanosecond is not yet, either
	}
	return 0
}

// take takes n tokens, or says how long it is until there are as many.
func (b *bucket) take(now time.Time, n float64) (wait time.Duration) {
	if wait = b.wait(now, n); wait == 0 {
		b.tokens -= n
	}
	return wait
}

// charge takes n tokens, though there may be fewer, and says how long it is until there are any. Nobody owes more than
// a burst.
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

// rates are one worker's.
type rates struct{ requests, visits, offers, events, bytes, kept, drawn bucket }

// What a worker may send, a second and at once.
const (
	requestRate, requestBurst = 20, 100
	visitRate, visitBurst     = 0.2, 20   // what is told to everybody and recorded: that it is there, its nodes' assignments
	offerRate, offerBurst     = 4, 16     // a node
	eventRate, eventBurst     = 200, 20e3 // a healed cut delivers what has waited
	nodeEventRate             = 50        // a node, where that is more
	byteRate, byteBurst       = 4 << 20, 32 << 20
)

// keptRate is the long-term limit of a worker's events, in bytes a second: 5.7 GB a day. The database keeps events for
// good, so without it an untrusted sender could fill the disk within the other rates. An honest node's round is about
// 10 kB. What a worker doesn't use in an hour stays its own: so long an outage is delivered as fast as the other rates
// let it.
const keptRate, keptBurst = 64 << 10, 3600 * keptRate

func newRates() *rates {
	return &rates{
		requests: newBucket(requestRate, requestBurst), visits: newBucket(visitRate, visitBurst), offers: newBucket(offerRate, offerBurst),
		events: newBucket(eventRate, eventBurst), bytes: newBucket(byteRate, byteBurst),
		kept: newBucket(keptRate, keptBurst), drawn: newBucket(drawnRate, drawnBurst),
	}
}

// resize fits the rates to how many nodes the worker has.
func (r *rates) resize(n int) {
	n = max(n, 1)
	r.offers.resize(offerRate*float64(n), offerBurst*float64(n))
	r.events.resize(max(eventRate, nodeEventRate*float64(n)), eventBurst)
}
