package exchangetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// testLatePeer publishes while another node already waits, 20 times to vary the order of the two.
func testLatePeer(t *testing.T, swarm Swarm) {
	a, reader := swarm.Join(t, "a"), swarm.Join(t, "reader")
	for round := range 20 {
		var group sync.WaitGroup
		group.Go(func() {
			same(t, gather(t, reader, round, []string{"a"}, patient())[0], batch("a", round, ""))
		})
		publish(t, a, batch("a", round, ""))
		group.Wait()
	}
}

// testWaitsForAll reaches its quorum at once and must still wait for the other peer until the deadline.
func testWaitsForAll(t *testing.T, swarm Swarm) {
	a, b, reader := swarm.Join(t, "a"), swarm.Join(t, "b"), swarm.Join(t, "reader")
	publish(t, a, batch("a", 0, ""))
	start := time.Now()
	var group sync.WaitGroup
	group.Go(func() {
		got := gather(t, reader, 0, []string{"a", "b"}, exchange.Barrier{Deadline: soon, Quorum: 1, Limit: 2 * soon})
		same(t, got[0], batch("a", 0, ""))
		same(t, got[1], batch("b", 0, ""))
		if waited := time.Since(start); waited >= soon {
			t.Errorf("%v, although all were there", waited)
		}
	})
	publish(t, b, batch("b", 0, ""))
	group.Wait()
}

func testQuorum(t *testing.T, swarm Swarm) {
	a, b, reader := swarm.Join(t, "a"), swarm.Join(t, "b"), swarm.Join(t, "reader")
	publish(t, a, batch("a", 0, ""))
	publish(t, b, batch("b", 0, ""))
	const deadline = 100 * time.Millisecond
	start := time.Now()
	got := gather(t, reader, 0, []string{"a", "b", "dead"}, exchange.Barrier{Deadline: deadline, Quorum: 2, Limit: 2 * soon})
	waited := time.Since(start)
	same(t, got[0], batch("a", 0, ""))
	same(t, got[1], batch("b", 0, ""))
	if got[2] != nil {
		t.Errorf("dead: %+v", got[2])
	}
	if waited < deadline || waited > soon {
		t.Errorf("waited %v for a deadline of %v", waited, deadline)
	}

	// After the deadline, the batch that completes the quorum ends the wait.
	publish(t, a, batch("a", 1, ""))
	var group sync.WaitGroup
	group.Go(func() {
		barrier := exchange.Barrier{Deadline: time.Millisecond, Quorum: 2, Limit: soon}
		same(t, gather(t, reader, 1, []string{"a", "dead", "b"}, barrier)[2], batch("b", 1, ""))
	})
	publish(t, b, batch("b", 1, ""))
	group.Wait()
}

func testNoQuorum(t *testing.T, swarm Swarm) {
	a, reader := swarm.Join(t, "a"), swarm.Join(t, "reader")
	publish(t, a, batch("a", 0, ""))
	publish(t, reader, batch("reader", 0, ""))
	barrier := exchange.Barrier{Deadline: 20 * time.Millisecond, Quorum: 2, Limit: 100 * time.Millisecond}
	start := time.Now()
	got, err := reader.Gather(t.Context(), 0, []string{"a", "reader", "dead"}, barrier) // its own batch does not count toward the quorum
	waited := time.Since(start)
	if !errors.Is(err, exchange.ErrNoQuorum) || got != nil {
		t.Errorf("got %v, %v, want ErrNoQuorum", got, err)
	}
	if waited < barrier.Limit || waited > soon {
		t.Errorf("waited %v for a limit of %v", waited, barrier.Limit)
	}
}

// testZeroBarrier does not wait, but must see everything that has been shared.
func testZeroBarrier(t *testing.T, swarm Swarm) {
	reader := swarm.Join(t, "reader")
	var peers []string
	for i := range 8 {
		peer := fmt.Sprintf("node_%d", i)
		publish(t, swarm.Join(t, peer), batch(peer, 0, ""))
		peers = append(peers, peer)
	}
	got := gather(t, reader, 0, append(peers, "dead"), look())
	for i, peer := range peers {
		same(t, got[i], batch(peer, 0, ""))
	}
	if _, err := reader.Gather(t.Context(), 0, []string{"dead"}, exchange.Barrier{Quorum: 1}); !errors.Is(err, exchange.ErrNoQuorum) {
		t.Errorf("dead: %v, want ErrNoQuorum", err)
	}
}

// testConcurrent runs eight nodes over five rounds. Each node gathers twice at a time.
func testConcurrent(t *testing.T, swarm Swarm) {
	const nodes, rounds = 8, 5
	names := make([]string, nodes)
	exchanges := make([]exchange.Exchange, nodes)
	for i := range nodes {
		names[i] = fmt.Sprintf("node_%d", i)
		exchanges[i] = swarm.Join(t, names[i])
	}
	var group sync.WaitGroup
	for i := range nodes {
		for range 2 {
			group.Go(func() {
				for round := range rounds {
					publish(t, exchanges[i], batch(names[i], round, ""))
					for j, got := range gather(t, exchanges[i], round, names, patient()) {
						same(t, got, batch(names[j], round, ""))
					}
				}
			})
		}
	}
	group.Wait()
}

func testCancellation(t *testing.T, swarm Swarm) {
	reader := swarm.Join(t, "reader")
	cause := errors.New("the node is stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := reader.Gather(ctx, 0, []string{"dead"}, exchange.Barrier{Deadline: time.Hour, Limit: time.Hour})
		done <- err
	}()
	cancel(cause)
	select {
	case err := <-done:
		if !errors.Is(err, cause) {
			t.Errorf("gather: %v, want the cause of the cancellation", err)
		}
	case <-time.After(soon):
		t.Fatal("gather goes on although its context has ended")
	}
	if err := reader.Publish(ctx, batch("reader", 0, "")); !errors.Is(err, cause) {
		t.Errorf("publish: %v, want the cause of the cancellation", err)
	}
	publish(t, reader, batch("reader", 1, ""))
}

func testClose(t *testing.T, swarm Swarm) {
	reader, other := swarm.Join(t, "reader"), swarm.Join(t, "other")
	done := make(chan error, 1)
	go func() {
		_, err := reader.Gather(t.Context(), 0, []string{"dead"}, exchange.Barrier{Deadline: time.Hour, Limit: time.Hour})
		done <- err
	}()
	if err := reader.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, exchange.ErrClosed) {
			t.Errorf("gather in progress: %v, want ErrClosed", err)
		}
	case <-time.After(soon):
		t.Fatal("gather goes on although its exchange is closed")
	}
	if err := reader.Publish(t.Context(), batch("reader", 0, "")); !errors.Is(err, exchange.ErrClosed) {
		t.Errorf("publish afterwards: %v, want ErrClosed", err)
	}
	if _, err := reader.Gather(t.Context(), 0, []string{"dead"}, look()); !errors.Is(err, exchange.ErrClosed) {
		t.Errorf("gather afterwards: %v, want ErrClosed", err)
	}
	if err := reader.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
	publish(t, other, batch("other", 0, ""))
}
