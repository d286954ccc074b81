package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// annas returns events of a worker's nodes. Counting one twice would show in sums of restarts and reapplied updates.
func annas(n int) []event.Event {
	events := make([]event.Event, n)
	for i := range events {
		node, at := fmt.Sprint("anna_", i%2), float64(200+i)
		switch i % 4 {
		case 0, 1:
			events[i] = aRound(node, i/4, at, 0.5)
		case 2:
			events[i] = event.Event{Type: event.TypeRestart, Node: node, Time: at, Message: "again"}
		case 3:
			events[i] = event.Event{Type: event.TypeLoaded, Node: node, Time: at, Loaded: &event.Loaded{ReplayedRounds: 1}}
		}
	}
	return events
}

func deliver(t *testing.T, s *Store, first int64, events []event.Event) int64 {
	acked, err := s.Deliver(context.Background(), Delivery{Run: testRun, Worker: "anna", Outbox: "a", First: first, Events: events})
	require.NoError(t, err)
	return acked
}

// TestOverlappingDeliveriesCountOnce checks that repeated and overlapping parts of an outbox leave the same rows as
// delivering each event once. A delivery that leaves a gap is rejected with the expected number.
func TestOverlappingDeliveriesCountOnce(t *testing.T) {
	once, often, runs := openStore(t, t.TempDir()+"/once.db", Options{}), openStore(t, t.TempDir()+"/often.db", Options{}), 0
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event.Event {
			e := drawEvent(t)
			e.Node = map[string]string{"node_0": "anna_0", "node_2": "anna_1"}[e.Node]
			return e
		}), 1, 40).Draw(t, "events")
		runs++
		run := aRun()
		run.Run = fmt.Sprint("run-", runs)
		stretch := func(s *Store, from, to int64) (int64, error) {
			return s.Deliver(context.Background(), Delivery{Run: run.Run, Worker: "anna", Outbox: "a", First: from + 1, Events: events[from:to]})
		}
		for _, s := range []*Store{once, often} {
			_, err := s.db.Exec("DELETE FROM runs") // of the previous iteration
			require.NoError(t, err)
			require.NoError(t, s.StartRun(context.Background(), run))
		}
		all := int64(len(events))
		got, err := stretch(once, 0, all)
		require.NoError(t, err)
		require.Equal(t, all, got)

		for acked := int64(0); acked < all; {
			from := rapid.Int64Range(0, all-1).Draw(t, "from")
			to := rapid.Int64Range(from, all).Draw(t, "to")
			got, err := stretch(often, from, to)
			if from > acked {
				require.ErrorIs(t, err, ErrGap)
				require.Equal(t, acked, got)
				to = from
				got, err = stretch(often, acked, from)
			}
			require.NoError(t, err)
			acked = max(acked, to)
			require.Equal(t, acked, got)
		}
		require.Equal(t, dump(t, once), dump(t, often))
		requireSums(t, often)
	})
}

// childDelivering delivers a worker's events in small parts and prints each acknowledged number.
func childDelivering(path string) int {
	s, err := Open(context.Background(), path, Options{})
	if err == nil {
		err = s.StartRun(context.Background(), aRun())
	}
	events := annas(100_000)
	for at := 0; err == nil; at += 7 {
		var acked int64
		acked, err = s.Deliver(context.Background(),
			Delivery{Run: testRun, Worker: "anna", Outbox: "a", First: int64(at) + 1, Events: events[at : at+7]})
		fmt.Println(acked)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// If a coordinator is killed between writing a delivery and its acknowledgment, the worker repeats the delivery. No
// event is missing or counted twice.
func TestKilledBeforeItAcknowledges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarm.db")
	cmd := child(t, "delivering", path)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	heard := 0
	for heard < 700 && lines.Scan() {
		heard, err = strconv.Atoi(lines.Text())
		require.NoError(t, err)
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait()) // later output is ignored, like an answer lost by the network

	s := openStore(t, path, Options{})
	requireIntact(t, s)
	acked, err := readerOf(t, s).Delivered(t.Context(), testRun, "anna", "a")
	require.NoError(t, err)
	require.GreaterOrEqual(t, acked, int64(heard))
	require.NoError(t, s.StartRun(t.Context(), aRun()))
	total := int(acked) + 20
	events := annas(total)
	require.EqualValues(t, total, deliver(t, s, int64(heard)+1, events[heard:]))

	var restarts, replayed, rounds int
	require.NoError(t, s.db.QueryRow(`SELECT sum(restarts), sum(replayed_rounds), sum(rounds_done) FROM nodes WHERE worker = 'anna'`).Scan(
		&restarts, &replayed, &rounds))
	count := map[event.Type]int{}
	for _, e := range events {
		count[e.Type]++
	}
	require.Equal(t, []int{count[event.TypeRestart], count[event.TypeLoaded], count[event.TypeRound]}, []int{restarts, replayed, rounds})
	requireSums(t, s)
}

func TestDeliverTakesOnlyWhatIsTheWorkers(t *testing.T) {
	var mu sync.Mutex
	var warned []string
	s := startedStore(t, Options{Warn: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		warned = append(warned, err.Error())
	}})
	for i, c := range []struct {
		name  string
		event event.Event
		want  string // empty: no warning
	}{
		{"another's round", aRound("node_0", 0, 201, 1), "the node belongs to another worker"},
		{"the run's end", event.Event{Type: event.TypeRunEnded, Time: 202, State: RunDone}, "only the coordinator records such events"},
		{"a join", event.Event{Type: event.TypeJoin, Node: "anna_0", Time: 203}, "only the coordinator records such events"},
		{"a GPU of its host", event.Event{Type: event.TypeDevice, Time: 203, Device: &event.Device{UUID: "GPU-1"}}, "coordinator's host"},
		{"no time", aRound("anna_0", 0, 0, 1), "its time is not valid"},
		{"what the schema refuses", event.Event{Type: event.TypeCheckpoint, Node: "anna_0", Time: 204,
			Checkpoint: &event.Checkpoint{Bytes: 1 << 62, Path: string(make([]byte, 1))}}, ""},
		{"one dropped on the way", event.Event{}, ""},
	} {
		warned = nil
		got := deliver(t, s, int64(2*i)+1, []event.Event{c.event, {Type: event.TypeWarning, Node: "anna_0", Time: float64(300 + i), Message: c.name}})
		require.EqualValues(t, 2*i+2, got, "%s counts as delivered", c.name)
		if c.want == "" {
			require.Empty(t, warned, c.name)
			continue
		}
		require.Len(t, warned, 1, c.name)
		require.Contains(t, warned[0], c.want)
	}
	require.Zero(t, snapshot(t, s, testRun).Nodes[0].RoundsDone)
	entries, err := readerOf(t, s).Timeline(t.Context(), testRun, 0, 100)
	require.NoError(t, err)
	require.Len(t, entries, 7, "what came after a refused event is here")
	for _, e := range entries {
		require.Equal(t, "anna", e.Event.Worker)
	}
}

func TestDeliverRefusesWhatHasNoPlace(t *testing.T) {
	s := startedStore(t, Options{})
	for _, d := range []Delivery{
		{Run: testRun, Outbox: "a", First: 1}, {Run: testRun, Worker: "anna", First: 1}, {Run: testRun, Worker: "anna", Outbox: "a"},
		{Run: "unknown", Worker: "anna", Outbox: "a", First: 1},
	} {
		_, err := s.Deliver(t.Context(), d)
		require.Error(t, err)
	}
	acked, err := s.Deliver(t.Context(), Delivery{Run: testRun, Worker: "anna", Outbox: "a", First: 1})
	require.NoError(t, err, "an empty one is no trouble")
	require.Zero(t, acked)
	require.NoError(t, s.Close())
	_, err = s.Deliver(t.Context(), Delivery{Run: testRun, Worker: "anna", Outbox: "a", First: 1})
	require.ErrorIs(t, err, ErrClosed)
}

func TestOnlyTheNewestOutboxesAreRemembered(t *testing.T) {
	s := startedStore(t, Options{})
	for i := range maxOutboxes + 20 {
		_, err := s.Deliver(t.Context(), Delivery{Run: testRun, Worker: "anna", Outbox: fmt.Sprint("box", i), First: 1, Events: annas(1)})
		require.NoError(t, err)
	}
	var kept int
	require.NoError(t, s.db.QueryRow(`SELECT count(*) FROM deliveries`).Scan(&kept))
	require.Equal(t, maxOutboxes, kept)
	acked, err := readerOf(t, s).Delivered(t.Context(), testRun, "anna", fmt.Sprint("box", maxOutboxes+19))
	require.NoError(t, err)
	require.EqualValues(t, 1, acked)
}

// Deliveries that arrive at the same moment share a transaction, up to a full batch.
func TestDeliveriesThatWaitTogetherAreWrittenTogether(t *testing.T) {
	s := &Store{queue: make(chan *item, 1000), opts: Options{}.withDefaults()}
	s.queue <- &item{event: aRound("node_0", 0, 200, 0.5)}
	for range 600 {
		s.queue <- &item{delivery: &delivery{Delivery: Delivery{Run: testRun, Worker: "anna", Outbox: "a", First: 1, Events: annas(4)}}}
	}
	var sizes []int
	for len(s.queue) > 0 {
		b, _, open := s.gather(nil)
		require.True(t, open)
		require.GreaterOrEqual(t, s.opts.MaxBatch+4, b.events)
		sizes = append(sizes, len(b.items))
	}
	require.Equal(t, []int{251, 250, 100}, sizes)
}

// BenchmarkDeliver measures workers that each deliver four rounds and wait for the answer.
func BenchmarkDeliver(b *testing.B) {
	for _, workers := range []int{1, 32, 1000} {
		b.Run(fmt.Sprint(workers, "_workers"), func(b *testing.B) {
			s := startedStore(b, Options{})
			first := make([]int64, workers)
			for b.Loop() {
				var wg sync.WaitGroup
				for w := range workers {
					wg.Go(func() {
						var events []event.Event
						for i := range 4 {
							e := aRound(fmt.Sprint("w", w, "_0"), int(first[w])+i, float64(1000+first[w])+float64(i), 0.5)
							events = append(events, e)
						}
						acked, err := s.Deliver(context.Background(),
							Delivery{Run: testRun, Worker: fmt.Sprint("w", w), Outbox: "a", First: first[w] + 1, Events: events})
						if err != nil {
							b.Error(err)
						}
						first[w] = acked
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(workers*b.N)/b.Elapsed().Seconds(), "deliveries/s")
		})
	}
}
