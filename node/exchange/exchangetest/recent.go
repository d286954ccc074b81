package exchangetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// arrived is a batch that Recent is expected to return.
type arrived struct {
	node  string
	round int
	age   int
}

// recent repeats Recent until it returns as many batches as wanted, because an exchange may learn of them a little
// later. Then it compares.
func recent(t *testing.T, e exchange.Exchange, window exchange.Window, want ...arrived) []*exchange.Received {
	t.Helper()
	var got []*exchange.Received
	for start := time.Now(); ; {
		var err error
		if got, err = e.Recent(t.Context(), window); err != nil {
			t.Errorf("recent %+v: %v", window, err)
			return nil
		}
		if len(got) >= len(want) || time.Since(start) > soon {
			break
		}
	}
	found := make([]arrived, len(got))
	for i, batch := range got {
		found[i] = arrived{batch.Node, batch.Round, batch.Age}
	}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("recent %+v:\n got %v\nwant %v", window, found, want)
		return nil
	}
	return got
}

func testRecent(t *testing.T, swarm Swarm) {
	a, b, reader := swarm.Join(t, "a"), swarm.Join(t, "b"), swarm.Join(t, "reader")
	peers := []string{"b", "nobody", "a"}
	publish(t, reader, batch("reader", 0, ""))
	publish(t, a, batch("a", 0, ""))
	publish(t, b, batch("b", 7, "ahead"))
	publish(t, a, batch("a", 1, ""))
	recent(t, reader, exchange.Window{Peers: peers, Limit: 8}, arrived{"b", 7, 0}, arrived{"a", 0, 0}, arrived{"a", 1, 0})
	publish(t, reader, batch("reader", 1, ""))
	publish(t, a, batch("a", 2, ""))

	got := recent(t, reader, exchange.Window{Round: 1, Staleness: 1, Peers: peers, Limit: 8},
		arrived{"b", 7, 1}, arrived{"a", 0, 1}, arrived{"a", 1, 1}, arrived{"a", 2, 0})
	if got != nil {
		same(t, got[0], batch("b", 7, "ahead"))
		same(t, got[3], batch("a", 2, ""))
	}
	recent(t, reader, exchange.Window{Round: 1, Peers: peers, Limit: 8}, arrived{"a", 2, 0})

	// A later call finds new batches and omits those that have become too old.
	publish(t, reader, batch("reader", 2, ""))
	publish(t, b, batch("b", 3, "behind"))
	recent(t, reader, exchange.Window{Round: 2, Staleness: 1, Peers: peers, Limit: 8}, arrived{"b", 3, 0}, arrived{"a", 2, 1})
	recent(t, reader, exchange.Window{Round: 2, Staleness: 1, Peers: []string{"a"}, Limit: 8}, arrived{"a", 2, 1})
	recent(t, reader, exchange.Window{Round: 2, Staleness: 2, Peers: peers, Limit: 8},
		arrived{"b", 7, 2}, arrived{"b", 3, 0}, arrived{"a", 0, 2}, arrived{"a", 1, 2}, arrived{"a", 2, 1})
	recent(t, reader, exchange.Window{Round: 2, Staleness: 2, Limit: 8})
}

// testRecentLimit has a peer that runs far ahead: only its newest batches count, and no others are fetched.
func testRecentLimit(t *testing.T, swarm Swarm) {
	a, reader := swarm.Join(t, "a"), swarm.Join(t, "reader")
	publish(t, reader, batch("reader", 0, ""))
	const rounds = 25
	for round := range rounds {
		publish(t, a, batch("a", round, ""))
	}
	window := exchange.Window{Staleness: 4, Peers: []string{"a"}, Limit: 3}
	recent(t, reader, window, arrived{"a", 22, 0}, arrived{"a", 23, 0}, arrived{"a", 24, 0})
	publish(t, a, batch("a", rounds, ""))
	publish(t, reader, batch("reader", 1, ""))
	window.Round = 1
	recent(t, reader, window, arrived{"a", 23, 1}, arrived{"a", 24, 1}, arrived{"a", 25, 1})
	window.Staleness, window.Limit = 0, 1
	publish(t, a, batch("a", rounds+1, ""))
	recent(t, reader, window, arrived{"a", 26, 0})
}

// testRecentJoining has a node that joins a swarm that has run for a long time: earlier batches are not recent.
func testRecentJoining(t *testing.T, swarm Swarm) {
	a := swarm.Join(t, "a")
	for round := range 3 {
		publish(t, a, batch("a", round, ""))
	}
	late := swarm.Join(t, "late")
	publish(t, a, batch("a", 3, ""))
	recent(t, late, exchange.Window{Round: 5, Staleness: 4, Peers: []string{"a"}, Limit: 8}, arrived{"a", 3, 0})
	publish(t, late, batch("late", 5, ""))
	publish(t, a, batch("a", 4, ""))
	recent(t, late, exchange.Window{Round: 5, Staleness: 4, Peers: []string{"a"}, Limit: 8}, arrived{"a", 3, 1}, arrived{"a", 4, 0})
}

// testRecentRestart has a node that restarts and remembers only its name and its round.
func testRecentRestart(t *testing.T, swarm Swarm) {
	a, reader := swarm.Join(t, "a"), swarm.Join(t, "reader")
	window := exchange.Window{Round: 1, Staleness: 1, Peers: []string{"a"}, Limit: 8}
	publish(t, reader, batch("reader", 0, ""))
	publish(t, a, batch("a", 0, ""))
	recent(t, reader, exchange.Window{Peers: window.Peers, Limit: 8}, arrived{"a", 0, 0})
	publish(t, reader, batch("reader", 1, ""))
	publish(t, a, batch("a", 1, ""))
	recent(t, reader, window, arrived{"a", 0, 1}, arrived{"a", 1, 0})
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	again := swarm.Join(t, "reader")
	publish(t, again, batch("reader", 1, "repeated"))
	recent(t, again, window, arrived{"a", 0, 1}, arrived{"a", 1, 0})
}

func testRecentMalformed(t *testing.T, swarm Swarm) {
	reader := swarm.Join(t, "reader")
	publish(t, reader, batch("reader", 0, ""))
	swarm.Plant(t, 0, "hostile", []byte("\x00\xff not JSON"))
	publish(t, swarm.Join(t, "good"), batch("good", 0, ""))
	got := recent(t, reader, exchange.Window{Peers: []string{"hostile", "good"}, Limit: 8}, arrived{"hostile", 0, 0}, arrived{"good", 0, 0})
	if got == nil {
		return
	}
	if got[0].Rejected == "" || len(got[0].Rollouts) > 0 {
		t.Errorf("garbage: %+v", got[0])
	}
	same(t, got[1], batch("good", 0, ""))
}

func testRecentClosed(t *testing.T, swarm Swarm) {
	reader := swarm.Join(t, "reader")
	if err := reader.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := reader.Recent(t.Context(), exchange.Window{Peers: []string{"a"}, Limit: 1}); !errors.Is(err, exchange.ErrClosed) {
		t.Errorf("recent afterwards: %v, want ErrClosed", err)
	}
}
