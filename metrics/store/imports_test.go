package store

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// anImport returns a run of two nodes and three rounds. The last round of node_1 has no number.
func anImport() Import {
	run := aRun()
	run.Run, run.Rounds, run.State, run.Message, run.Ended, run.PID = "old-1", 3, RunDone, "imported from x", 400, 0
	x := Import{Run: run, Format: "f", Source: "/old", Digest: "d", Notes: []byte(`{"doubled":6}`)}
	for round := range 3 {
		for n, node := range run.NodeIDs {
			sum := float64(round + n)
			if round == 2 && n == 1 {
				sum = math.NaN()
			}
			x.Rounds = append(x.Rounds, ImportedRound{Node: node, Time: 100 + 100*float64(round), RewardSum: sum, Records: 2, Source: "log",
				Round: event.Round{Round: round, Reward: sum / 32, Completions: 32, NonFinite: map[string]string{"loss": "unrecorded"}}})
		}
	}
	return x
}

func TestAnImportIsARunWithItsSums(t *testing.T) {
	s := startedStore(t, Options{})
	outcome, err := s.Import(t.Context(), anImport())
	require.NoError(t, err)
	require.Equal(t, ImportNew, outcome)
	snapshot := snapshotOf(t, s, "old-1")
	require.Equal(t, []any{RunDone, "imported from x", 100.0, 400.0, 1}, []any{snapshot.Run.State, snapshot.Run.Message, snapshot.Run.Started,
		snapshot.Run.Ended, snapshot.Run.Attempts})
	node := snapshot.Nodes[0]
	require.Equal(t, []any{event.StateDone, 3, 3.0 / 32}, []any{node.State, node.RoundsDone, node.CumulativeReward})
	require.InDelta(t, 300, snapshot.Attempts[0].ActiveSeconds(), 0)
	requireSums(t, s)

	var sum, loss any
	var why string
	require.NoError(t, s.db.QueryRow(`SELECT reward_sum, loss, non_finite FROM imported_rounds JOIN rounds USING (run, round, node)
WHERE round = 2 AND node = 'node_1'`).Scan(&sum, &loss, &why))
	require.Equal(t, []any{nil, nil, "reward=nan loss=unrecorded"}, []any{sum, loss, why})
	require.NoError(t, s.db.QueryRow(`SELECT sum(reward_sum) - sum(reward * completions)
FROM imported_rounds JOIN rounds USING (run, round, node, completions)`).Scan(&sum))
	require.InDelta(t, 0, sum, 1e-12)

	found, err := readerOf(t, s).FindRun(t.Context(), "sapo-4-4", 7)
	require.NoError(t, err)
	require.Equal(t, testRun, found.Run, "an import, though newer, is nothing that can go on")
}

func TestImportingAgainChangesNothingOrReplaces(t *testing.T) {
	s := startedStore(t, Options{})
	x := anImport()
	_, err := s.Import(t.Context(), x)
	require.NoError(t, err)
	before := count(t, s)
	outcome, err := s.Import(t.Context(), x)
	require.NoError(t, err)
	require.Equal(t, ImportUnchanged, outcome)
	require.Equal(t, before, count(t, s))

	x.Digest, x.Rounds = "e", x.Rounds[:4]
	outcome, err = s.Import(t.Context(), x)
	require.NoError(t, err)
	require.Equal(t, ImportReplaced, outcome)
	require.Equal(t, [3]int{4, 4, 1}, count(t, s))
	requireSums(t, s)
}

// count returns the numbers of rounds, imported rounds and imports.
func count(t *testing.T, s *Store) (n [3]int) {
	t.Helper()
	require.NoError(t, s.db.QueryRow(`SELECT (SELECT count(*) FROM rounds), (SELECT count(*) FROM imported_rounds), (SELECT count(*) FROM imports)`).
		Scan(&n[0], &n[1], &n[2]))
	return n
}

func TestAnImportIsWholeOrNothing(t *testing.T) {
	s := startedStore(t, Options{})
	record(t, s, aRound("node_0", 0, 101, 0.5))
	x := anImport()
	x.Run.Run = testRun
	_, err := s.Import(t.Context(), x)
	require.ErrorIs(t, err, ErrNotImported)
	require.Equal(t, 1, snapshotOf(t, s, testRun).Nodes[0].RoundsDone, "a run of one's own is left alone")

	x = anImport()
	x.Rounds = append(x.Rounds, ImportedRound{Node: "node_0", Time: 500, Round: event.Round{Round: -1}})
	_, err = s.Import(t.Context(), x)
	require.ErrorContains(t, err, "negative")
	require.Equal(t, [3]int{1, 0, 0}, count(t, s))
	_, err = s.Import(t.Context(), Import{})
	require.Error(t, err)
}

// While a coordinator records, an import into the same database waits. Neither loses data.
func TestImportBesideAWriter(t *testing.T) {
	s := startedStore(t, Options{})
	other := openStore(t, s.Path(), Options{})
	done := make(chan error, 1)
	go func() {
		_, err := other.Import(t.Context(), anImport())
		done <- err
	}()
	for i := range 500 {
		require.NoError(t, s.Record(t.Context(), aRound("node_0", i, 100+float64(i), 0.5)))
	}
	require.NoError(t, <-done)
	require.NoError(t, s.Flush(t.Context()))
	require.Equal(t, [3]int{506, 6, 1}, count(t, s))
}

func TestDumpStreamsEveryTableInOrder(t *testing.T) {
	s := startedStore(t, Options{})
	for i := range 12 {
		record(t, s, aRound(fmt.Sprint("node_", i), 0, 101, 0.1*float64(i)))
	}
	_, err := s.Import(t.Context(), anImport())
	require.NoError(t, err)
	r := readerOf(t, s)
	var tables int
	require.NoError(t, s.db.QueryRow(`SELECT count(*) FROM sqlite_schema
WHERE type = 'table' AND name NOT IN ('footprints', 'sqlite_sequence')`).Scan(&tables))
	require.Len(t, Tables(), tables, "a new table has to be listed")
	for _, table := range Tables() {
		columns, err := r.Columns(t.Context(), table)
		require.NoError(t, err)
		require.NotEmpty(t, columns, table)
		require.NoError(t, r.Dump(t.Context(), table, testRun, "", func(values []any) error {
			for i, v := range values {
				switch v.(type) {
				case nil:
				case int64:
					require.Equal(t, "INTEGER", columns[i].Type, columns[i].Name)
				case float64:
					require.Equal(t, "REAL", columns[i].Type, columns[i].Name)
				case string:
					require.Equal(t, "TEXT", columns[i].Type, columns[i].Name)
				default:
					require.Fail(t, "unexpected", "%s is a %T", columns[i].Name, v)
				}
			}
			return nil
		}))
	}
	var nodes []any
	require.NoError(t, r.Dump(t.Context(), "nodes", testRun, "", func(v []any) error { nodes = append(nodes, v[1]); return nil }))
	require.Equal(t, []any{"node_2", "node_10"}, []any{nodes[2], nodes[10]})
	rows := 0
	require.NoError(t, r.Dump(t.Context(), "rounds", testRun, "node_3", func([]any) error { rows++; return nil }))
	require.Equal(t, 1, rows)
	require.ErrorIs(t, r.Dump(t.Context(), "sqlite_schema", testRun, "", nil), ErrNotFound)
	stop := fmt.Errorf("enough")
	require.ErrorIs(t, r.Dump(t.Context(), "rounds", testRun, "", func([]any) error { return stop }), stop)
}

// snapshotOf reads a run through a reader.
func snapshotOf(t *testing.T, s *Store, run string) Snapshot {
	t.Helper()
	snapshot, err := readerOf(t, s).Snapshot(t.Context(), run)
	require.NoError(t, err)
	return snapshot
}

// A database of an older program has no imports, and Dump returns none.
func TestDumpOfAnOlderSchema(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
	_, err := s.db.Exec("DROP TABLE imported_rounds")
	require.NoError(t, err)
	require.NoError(t, readerOf(t, s).Dump(t.Context(), "imported_rounds", testRun, "", func([]any) error { return fmt.Errorf("a row") }))
}
