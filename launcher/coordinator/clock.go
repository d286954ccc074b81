package coordinator

import (
	"fmt"
	"math"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
)

const (
	clockSlack = 5.0  // seconds between an event and its arrival that are nobody's fault
	clockJump  = 60.0 // seconds by which the host's clock must leave the run's before it is worth a word
)

// runClock gives a run's events times that go on evenly, over attempts too, whatever is done to the host's clock: what
// was recorded last must not seem newer than what happens now. It is not safe for concurrent use.
type runClock struct {
	began  time.Time // its monotonic part counts
	origin float64   // Unix seconds at began
	told   float64   // by how much the host's clock was off when that was last said
	host   func() float64
}

// newRunClock starts a clock at the host's time, or at that of the run's last event where that is later.
func newRunClock(last float64) *runClock {
	return &runClock{began: time.Now(), origin: max(event.Now(), last), host: event.Now}
}

func (c *runClock) now() float64 { return c.origin + time.Since(c.began).Seconds() }

// stamp corrects the time of an event that arrives now, unless the event tells again of something past.
func (c *runClock) stamp(e *event.Event) {
	if !e.Replayed && math.Abs(e.Time-c.now()) > clockSlack {
		e.Time = c.now()
	}
}

// jump is a line about the host's clock when it has been set, empty otherwise.
func (c *runClock) jump() string {
	off := c.host() - c.now()
	if math.Abs(off-c.told) < clockJump {
		return ""
	}
	by, way := off-c.told, "forward"
	if by < 0 {
		by, way = -by, "back"
	}
	c.told = off
	return fmt.Sprintf("the host's clock went %s by %s; the run's times go on as if it had not", way,
		units.Seconds(by).Round(time.Second))
}
