package coordinator

import (
	"fmt"
	"math"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
)

const (
	clockSlack = 5.0  // seconds of normal delay between an event and its arrival
	clockJump  = 60.0 // minimum difference between the host's clock and the run's that is reported, in seconds
)

// runClock gives a run's events monotonic times, across attempts too, even if the host's clock is changed.
// Otherwise an old record could seem newer than a current event. It is not safe for concurrent use.
type runClock struct {
	began  time.Time // its monotonic reading counts
	origin float64   // Unix seconds at began
	told   float64   // last reported offset of the host's clock
	host   func() float64
}

// newRunClock starts a clock at the host's time or the time of the run's last event, whichever is later.
func newRunClock(last float64) *runClock {
	return &runClock{began: time.Now(), origin: max(event.Now(), last), host: event.Now}
}

func (c *runClock) now() float64 { return c.origin + time.Since(c.began).Seconds() }

// stamp corrects the time of an arriving event, unless the event is replayed.
func (c *runClock) stamp(e *event.Event) {
	if !e.Replayed && math.Abs(e.Time-c.now()) > clockSlack {
		e.Time = c.now()
	}
}

// jump returns a message if the host's clock has been set, else "".
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
	return fmt.Sprintf("the host's clock jumped %s by %s; the run's times continue without the jump", way,
		units.Seconds(by).Round(time.Second))
}
