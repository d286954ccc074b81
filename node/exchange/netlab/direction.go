package netlab

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
)

// direction carries packets one way. Callers pass its times and its seed, so tests need no network.
type direction struct {
	deliver func(packet []byte)

	mu         sync.Mutex
	conditions Conditions
	cut        bool
	dice       *rand.Rand
	idle       time.Time // when the packets accepted so far have passed the rate limit
	newest     time.Time // when the newest accepted packet arrives
	queue      []parcel
	counts     Counts
	wake       chan struct{}
}

// parcel is a packet in flight.
type parcel struct {
	packet []byte
	at     time.Time // arrival
}

func newDirection(seed uint64, deliver func([]byte)) *direction {
	return &direction{deliver: deliver, dice: rand.New(rand.NewPCG(seed, 0)), wake: make(chan struct{}, 1)}
}

// set changes the conditions. A cut drops the packets in flight.
func (d *direction) set(c Conditions, cut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conditions, d.cut = c, cut
	if cut {
		d.counts.Cut += int64(len(d.queue))
		d.queue = nil
	}
}

// accept queues a packet, which it retains, or drops it.
func (d *direction) accept(packet []byte, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch at, fate := d.arrival(len(packet), now); fate {
	case carried:
		d.queue = append(d.queue, parcel{packet, at})
		if len(d.queue) == 1 {
			d.rouse()
		}
	case cutOff:
		d.counts.Cut++
	case lost:
		d.counts.Lost++
	case overflowed:
		d.counts.Overflowed++
	}
}

// fate is what happens to a packet.
type fate int

const (
	carried fate = iota
	cutOff
	lost
	overflowed
)

// arrival decides the fate and the arrival time of a packet of size bytes. The caller holds mu.
func (d *direction) arrival(size int, now time.Time) (time.Time, fate) {
	c := d.conditions
	if d.cut {
		return now, cutOff
	}
	if c.Loss > 0 && d.dice.Float64() < c.Loss {
		return now, lost
	}
	at := now
	if c.RateBytes > 0 {
		begins := later(now, d.idle)
		limit := c.Queue
		if limit == 0 {
			limit = DefaultQueue
		}
		if begins.Sub(now) > limit {
			return now, overflowed
		}
		d.idle = begins.Add(units.Seconds(float64(size) / c.RateBytes))
		at = d.idle
	}
	d.counts.LongestWait = max(d.counts.LongestWait, at.Sub(now))
	at = at.Add(c.Delay)
	if c.Jitter > 0 {
		at = at.Add(time.Duration(d.dice.Int64N(int64(c.Jitter) + 1)))
	}
	at = later(at, d.newest)
	d.newest = at
	return at, carried
}

// due removes the packets that have arrived by now from the queue. It also returns the time of the next arrival, zero
// if no packet is in flight.
func (d *direction) due(now time.Time) (arrived []parcel, next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for n < len(d.queue) && !d.queue[n].at.After(now) {
		d.counts.Packets++
		d.counts.Bytes += int64(len(d.queue[n].packet))
		d.counts.LongestBehind = max(d.counts.LongestBehind, now.Sub(d.queue[n].at))
		n++
	}
	arrived, d.queue = d.queue[:n:n], d.queue[n:]
	if len(d.queue) > 0 {
		next = d.queue[0].at
	}
	return arrived, next
}

// serve delivers packets until done is closed.
func (d *direction) serve(done <-chan struct{}) {
	for {
		arrived, next := d.due(time.Now())
		for _, p := range arrived {
			d.deliver(p.packet)
		}
		if len(arrived) > 0 {
			continue
		}
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-done:
			return
		case <-d.wake:
		case <-timer:
		}
	}
}

func (d *direction) rouse() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *direction) count() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
