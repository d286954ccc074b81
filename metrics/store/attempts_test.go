package store

import (
	"context"
	"database/sql"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

func runEnded(at float64, state string) event.Event {
	return event.Event{Type: event.TypeRunEnded, Run: testRun, Time: at, State: event.State(state), Message: "m"}
}

func attempts(t testing.TB, s *Store) []Attempt {
	t.Helper()
	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	got, err := r.Attempts(t.Context(), testRun)
	require.NoError(t, err)
	return got
}

func TestEveryStartIsAnAttempt(t *testing.T) {
	s := startedStore(t, Options{elapsed: new(steady).read})
	record(t, s, aRound("node_0", 39, 149, 0.5), event.Event{Type: event.TypeState, Run: testRun, Node: "node_0", Time: 150, State: event.StateDone})
	record(t, s, runEnded(160, RunStopped))
	again := aRun()
	again.Started, again.PID, again.PricePerHour, again.PriceCurrency = 1000, 77, 1.29, "$"
	require.NoError(t, s.StartRun(t.Context(), again))
	record(t, s, runEnded(160, RunStopped)) // of the first attempt, repeated
	again.Started, again.PricePerHour, again.PriceCurrency = 2000, 0, ""
	require.NoError(t, s.StartRun(t.Context(), again))
	record(t, s, runEnded(2100, RunDone))

	require.Equal(t, []Attempt{
		{Attempt: 1, Started: 100, Seen: 160, Ended: 160, State: RunStopped, Message: "m", Host: "h", PID: 1234},
		{Attempt: 2, Started: 1000, Seen: 1000, Ended: 1000, State: AttemptCrashed, Host: "h", PID: 77},
		{Attempt: 3, Started: 2000, Seen: 2100, Ended: 2100, State: RunDone, Message: "m", Host: "h", PID: 77},
	}, attempts(t, s))
	got := snapshot(t, s, testRun)
	require.Equal(t, []any{RunDone, 3, 100.0, 2000.0, 2100.0}, []any{got.Run.State, got.Run.Attempts, got.Run.Started, got.Run.Resumed, got.Run.Ended})
	require.Equal(t, []any{1.29, "$"}, []any{got.Run.PricePerHour, got.Run.PriceCurrency}, "a start without a price keeps it")
	require.Equal(t, attempts(t, s), got.Attempts)
	require.Equal(t, []event.State{event.StateDone, event.StateQueued}, []event.State{got.Nodes[0].State, got.Nodes[1].State})

	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer r.Close()
	totals, err := r.Runs(t.Context(), Filter{})
	require.NoError(t, err)
	require.InDelta(t, 160, totals[0].ActiveSeconds, 0)
	require.Equal(t, 3, totals[0].Attempts)
}

// steady is a clock that only the test moves.
type steady struct{ now atomic.Int64 }

func (c *steady) read() time.Duration     { return time.Duration(c.now.Load()) }
func (c *steady) pass(span time.Duration) { c.now.Add(int64(span)) }

func TestALiveAttemptIsSeen(t *testing.T) {
	var clock steady
	s := startedStore(t, Options{SeenInterval: time.Millisecond, elapsed: clock.read})
	clock.pass(30 * time.Second)
	require.Eventually(t, func() bool { return attempts(t, s)[0].Seen == 130 }, time.Minute, time.Millisecond)
	clock.pass(time.Second)
	require.NoError(t, s.Close()) // records another heartbeat

	s = openStore(t, s.Path(), Options{SeenInterval: time.Millisecond, elapsed: clock.read})
	clock.pass(time.Hour)
	again := aRun()
	again.Started = 9000
	require.NoError(t, s.StartRun(t.Context(), again))
	got := attempts(t, s)
	require.Equal(t, []any{131.0, AttemptCrashed, 31.0}, []any{got[0].Ended, got[0].State, got[0].ActiveSeconds()}, "what follows its death isn't its")
	clock.pass(10 * time.Second)
	require.Eventually(t, func() bool { return attempts(t, s)[1].Seen == 9010 }, time.Minute, time.Millisecond)
	require.InDelta(t, 131, attempts(t, s)[0].Ended, 0)
	record(t, s, runEnded(9005, RunDone))
	clock.pass(10 * time.Second)
	require.NoError(t, s.Close())
	s = openStore(t, s.Path(), Options{})
	require.Equal(t, []float64{9005, 9005}, []float64{attempts(t, s)[1].Ended, attempts(t, s)[1].Seen}, "an attempt that has ended is seen no more")
}

// schema2 returns a database that schema 2 wrote: one finished run and one killed run. See testdata/schema_002.sql.
func schema2(t *testing.T) string {
	rows, err := os.ReadFile("testdata/schema_002.sql")
	require.NoError(t, err)
	return olderDatabase(t, 2, string(rows))
}

func TestMigrationKeepsRunsOfSchema2(t *testing.T) {
	path := schema2(t)
	_, err := OpenReader(t.Context(), path)
	require.ErrorContains(t, err, "written by an older swarm (schema 2")
	count := func(db *sql.DB) (counts []int) {
		for _, table := range []string{"runs", "nodes", "rounds", "task_rewards", "peers", "memory", "checkpoints", "events"} {
			var n int
			require.NoError(t, db.QueryRow("SELECT count(*) FROM "+table).Scan(&n))
			counts = append(counts, n)
		}
		return counts
	}
	db, err := sql.Open("sqlite3", sqlite.DSN(path, nil))
	require.NoError(t, err)
	before := count(db)
	var lastEvent, sameEvent int64
	require.NoError(t, db.QueryRow("SELECT max(id) FROM events").Scan(&lastEvent))
	require.NoError(t, db.Close())

	s := openStore(t, path, Options{})
	require.Equal(t, before, count(s.db))
	require.NoError(t, s.db.QueryRow("SELECT max(id) FROM events").Scan(&sameEvent))
	require.Equal(t, lastEvent, sameEvent, "who reads on after an entry finds the next one")
	requireIntact(t, s)
	r, err := OpenReader(t.Context(), path)
	require.NoError(t, err)
	defer r.Close()
	runs, err := r.Runs(t.Context(), Filter{})
	require.NoError(t, err)
	require.Len(t, runs, 2)
	done, killed := runs[0], runs[1]
	require.Equal(t, []any{"4loc4ext-1", RunDone, 4, 2, 1}, []any{done.Run.Run, done.State, done.NodeRounds, done.RoundsDone, done.Attempts})
	require.InDelta(t, done.Ended-done.Started, done.ActiveSeconds, 1e-6)
	require.InDelta(t, 0.06+0.1265625+0.09375+0.0025, done.CumulativeReward, 0.01)
	require.Equal(t, RunRunning, killed.State)
	require.Greater(t, killed.ActiveSeconds, 10.0, "until its nodes' last event")
	tried, err := r.Attempts(t.Context(), killed.Run.Run)
	require.NoError(t, err)
	require.Len(t, tried, 1)
	require.Zero(t, tried[0].Ended)

	// The run can be resumed.
	found, err := r.FindRun(t.Context(), "2loc6ext", 42)
	require.NoError(t, err)
	recorded, err := r.Recorded(t.Context(), found.Run)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"node_0": 2, "node_1": 2}, recorded)
	again := *found
	again.Started = found.Started + 1e6
	again.NodeIDs = []string{"node_0", "node_1"}
	require.NoError(t, s.StartRun(t.Context(), again))
	e := aRound("node_0", 2, again.Started+5, 0.5)
	e.Run = found.Run
	require.NoError(t, s.Record(context.Background(), e))
	require.NoError(t, s.Flush(context.Background()))
	got := snapshot(t, s, found.Run)
	require.Equal(t, []any{2, AttemptCrashed, tried[0].Seen}, []any{got.Run.Attempts, got.Attempts[0].State, got.Attempts[0].Ended})
	require.Equal(t, 3, got.Nodes[0].RoundsDone)
	requireSums(t, s)
}
