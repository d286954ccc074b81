package store

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// tablesOfRuns returns all tables whose rows belong to a run.
func tablesOfRuns(t *testing.T, r *Reader) (tables []string) {
	t.Helper()
	rows, err := r.db.QueryContext(t.Context(), `SELECT s.name FROM sqlite_schema AS s, pragma_table_info(s.name) AS c
WHERE s.type = 'table' AND c.name = 'run' ORDER BY 1`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		tables = append(tables, name)
	}
	require.NoError(t, rows.Err())
	return tables
}

func countOf(t *testing.T, r *Reader, table, run string) (n int) {
	t.Helper()
	require.NoError(t, r.db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT count(*) FROM %s WHERE run = ?", table), run).Scan(&n))
	return n
}

func TestARemovedRunLeavesNothingAndTakesNothingElse(t *testing.T) {
	s, reader := extractable(t)
	before := map[string]int{}
	for _, table := range tablesOfRuns(t, reader) {
		before[table] = countOf(t, reader, table, "other-1")
	}
	freed, err := s.RemoveRun(t.Context(), testRun)
	require.NoError(t, err)
	require.Positive(t, freed)
	for _, table := range tablesOfRuns(t, reader) {
		require.Zero(t, countOf(t, reader, table, testRun), table)
		require.Equal(t, before[table], countOf(t, reader, table, "other-1"), table)
	}
	require.Positive(t, before["task_rewards"])
	_, err = s.RemoveRun(t.Context(), testRun)
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, s.Record(t.Context(), aRound("node_0", 1, 1, 1)), "was never started here")
}

// Every table of runs, also a future one, deletes its rows with the run.
func TestEveryTableOfRunsFollowsThem(t *testing.T) {
	_, reader := extractable(t)
	for _, table := range tablesOfRuns(t, reader) {
		if table == "runs" {
			continue
		}
		var cascades int
		require.NoError(t, reader.db.QueryRowContext(t.Context(),
			`SELECT count(*) FROM pragma_foreign_key_list(?) WHERE "from" = 'run' AND on_delete = 'CASCADE'`, table).Scan(&cascades))
		require.Equal(t, 1, cascades, table)
	}
}

// A second process removes a run while a coordinator records another one.
func TestARunIsRemovedBesideAnotherWriter(t *testing.T) {
	s, reader := extractable(t)
	second := openStore(t, s.Path(), Options{})
	done := make(chan error, 1)
	go func() {
		for round := range 200 {
			e := aRound("node_1", round, float64(2000+round), 1)
			e.Run = "other-1"
			if err := s.Record(t.Context(), e); err != nil {
				done <- err
				return
			}
		}
		done <- s.Flush(t.Context())
	}()
	_, err := second.RemoveRun(t.Context(), testRun)
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.NoError(t, s.Err())
	n := 0
	require.NoError(t, reader.Dump(t.Context(), "rounds", "other-1", "node_1", func([]any) error { n++; return nil }))
	require.Equal(t, 200, n)
	require.Zero(t, countOf(t, reader, "rounds", testRun))
}

func TestLastSeen(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
	require.NoError(t, s.StartRun(t.Context(), aRun()))
	reader := readerOf(t, s)
	runs, err := reader.Runs(t.Context(), Filter{})
	require.NoError(t, err)
	require.InDelta(t, aRun().Started, runs[0].LastSeen, 0)
	record(t, s, event.Event{Type: event.TypeRunEnded, Run: testRun, Time: 5000, State: RunDone})
	runs, err = reader.Runs(t.Context(), Filter{})
	require.NoError(t, err)
	require.InDelta(t, 5000, runs[0].LastSeen, 0)
}
