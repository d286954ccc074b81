package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

func TestAClockThatJumpsDoesNotMoveTheRun(t *testing.T) {
	t.Parallel()
	shift := 0.0
	c := newRunClock(0)
	c.host = func() float64 { return event.Now() + shift }
	require.Empty(t, c.jump())

	shift = -3600
	e := event.Event{Time: c.host()}
	before := c.now()
	c.stamp(&e)
	require.GreaterOrEqual(t, e.Time, before)
	require.Equal(t, "the host's clock jumped back by 1h0m0s; the run's times continue without the jump", c.jump())
	require.Empty(t, c.jump(), "said once")
	shift = 7200
	require.Equal(t, "the host's clock jumped forward by 3h0m0s; the run's times continue without the jump", c.jump())

	past := event.Event{Time: 1000, Replayed: true}
	c.stamp(&past)
	require.InDelta(t, 1000, past.Time, 0, "what is told again keeps its time")
	usual := event.Event{Time: c.now() - 1}
	want := usual.Time
	c.stamp(&usual)
	require.InDelta(t, want, usual.Time, 0)
}

func TestARunGoesOnAfterItsLastEvent(t *testing.T) {
	t.Parallel()
	future := event.Now() + 86400 // recorded by a clock that was a day ahead
	c := newRunClock(future)
	require.GreaterOrEqual(t, c.now(), future)
	e := event.Event{Time: event.Now()}
	c.stamp(&e)
	require.GreaterOrEqual(t, e.Time, future)
	require.InDelta(t, future, e.Time, float64(time.Minute/time.Second))
}
