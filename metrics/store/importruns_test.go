package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/extract"
)

// ended ends runs as a coordinator does.
func ended(t *testing.T, s *Store, state string, runs ...string) {
	t.Helper()
	for _, run := range runs {
		record(t, s, event.Event{Type: event.TypeRunEnded, Run: run, Time: 3000, State: event.State(state)})
	}
	require.NoError(t, s.Flush(t.Context()))
}

// extractOf writes an extract of runs and opens it.
func extractOf(t *testing.T, reader *Reader, runs ...string) *Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs.db")
	_, err := reader.Extract(t.Context(), path, runs)
	require.NoError(t, err)
	from, err := OpenFile(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, from.Close()) })
	return from
}

func importInto(t *testing.T, s *Store, from *Reader) []ImportedRun {
	t.Helper()
	runs, err := s.ImportRuns(t.Context(), from, false)
	require.NoError(t, err)
	return runs
}

// outcomes formats one line per run with its outcome.
func outcomes(runs []ImportedRun) string {
	var lines []string
	for _, r := range runs {
		lines = append(lines, r.Source+" "+r.Outcome+" "+r.Run)
	}
	return strings.Join(lines, "\n")
}

func TestImportedRunsSayWhatTheySaidAtHome(t *testing.T) {
	there, reader := extractable(t)
	ended(t, there, RunDone, testRun, "other-1")
	from := extractOf(t, reader, testRun, "other-1")
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
	runs := importInto(t, s, from)
	require.Equal(t, "other-1 new other-1\nrun-1 new sapo-4-4-1", outcomes(sortedBySource(runs)))
	here := readerOf(t, s)
	want, err := from.Runs(t.Context(), Filter{})
	require.NoError(t, err)
	got, err := here.Runs(t.Context(), Filter{})
	require.NoError(t, err)
	for i := range want {
		require.True(t, got[i].Imported())
		require.False(t, want[i].Imported())
		got[i].Versions = want[i].Versions
	}
	want[0].Run.Run, want[1].Run.Run = got[0].Run.Run, got[1].Run.Run
	require.ElementsMatch(t, want, got)
	for _, table := range extract.Tables() {
		if table != "imports" && table != "runs" && table != "events" {
			require.Equal(t, rowsWithout(t, from, table, testRun), rowsWithout(t, here, table, "sapo-4-4-1"), table)
		}
	}
	requireSums(t, s)

	found, err := here.FindRun(t.Context(), want[0].Experiment, want[0].Seed)
	require.NoError(t, err)
	require.Nil(t, found, "a run of another home can't go on")
	found, err = here.FindImported(t.Context(), want[0].Experiment, want[0].Seed, want[0].Rounds)
	require.NoError(t, err)
	require.Equal(t, got[0].Run.Run, found.Run)
}

// rowsWithout returns a run's rows of a table, without the run's key.
func rowsWithout(t *testing.T, r *Reader, table, run string) (rows [][]any) {
	t.Helper()
	require.NoError(t, r.Dump(t.Context(), table, run, "", func(row []any) error {
		rows = append(rows, append([]any{}, row[1:]...))
		return nil
	}))
	return rows
}

func sortedBySource(runs []ImportedRun) []ImportedRun {
	if len(runs) == 2 && runs[0].Source > runs[1].Source {
		runs[0], runs[1] = runs[1], runs[0]
	}
	return runs
}

func TestImportingRunsAgainChangesNothingOrTakesTheLaterState(t *testing.T) {
	there, reader := extractable(t)
	ended(t, there, RunStopped, testRun)
	early := extractOf(t, reader, testRun)
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
	require.Equal(t, "run-1 new sapo-4-4-1", outcomes(importInto(t, s, early)), "a key is an experiment's")
	require.Equal(t, "run-1 unchanged sapo-4-4-1", outcomes(importInto(t, s, early)))
	onward := extractOf(t, readerOf(t, s), "sapo-4-4-1")
	require.Equal(t, "sapo-4-4-1 unchanged sapo-4-4-1", outcomes(importInto(t, s, onward)), "by way of a third home it is the same run")

	for round := range 3 {
		e := aRound("node_1", round, 2500+float64(round), 0.5)
		record(t, there, e)
	}
	ended(t, there, RunDone, testRun)
	late := extractOf(t, reader, testRun)
	require.Equal(t, "run-1 replaced sapo-4-4-1", outcomes(importInto(t, s, late)))
	require.Equal(t, "run-1 older sapo-4-4-1", outcomes(importInto(t, s, early)))
	require.Equal(t, rowsWithout(t, late, "rounds", testRun), rowsWithout(t, readerOf(t, s), "rounds", "sapo-4-4-1"))
	requireSums(t, s)
	require.Equal(t, "run-1 own run-1", outcomes(importInto(t, there, late)), "at home there is nothing to import")
}

func TestAnImportedRunGetsAKeyThatIsFree(t *testing.T) {
	there, reader := extractable(t)
	ended(t, there, RunDone, testRun)
	from := extractOf(t, reader, testRun)
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
	own := aRun()
	own.Run, own.Started = "sapo-4-4-1", own.Started+1 // a different run
	require.NoError(t, s.StartRun(t.Context(), own))
	runs := importInto(t, s, from)
	require.Equal(t, "run-1 new sapo-4-4-2", outcomes(runs))
	require.Equal(t, "run-1 unchanged sapo-4-4-2", outcomes(importInto(t, s, from)))
	requireSums(t, s)
}

func TestWhatHadNotEndedIsLeftOut(t *testing.T) {
	there, reader := extractable(t)
	ended(t, there, RunFailed, testRun)
	from := extractOf(t, reader, testRun, "other-1")
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
	dry, err := s.ImportRuns(t.Context(), from, true)
	require.NoError(t, err)
	require.Equal(t, [3]int{}, count(t, s), "a dry run wrote")
	runs := importInto(t, s, from)
	require.Equal(t, dry, runs)
	require.Equal(t, "other-1 going \nrun-1 new sapo-4-4-1", outcomes(sortedBySource(runs)))
}

// A key with an existing folder belongs to a run that is about to start.
func TestAKeyWithAFolderIsTaken(t *testing.T) {
	there, reader := extractable(t)
	ended(t, there, RunDone, testRun)
	home := t.TempDir()
	s := openStore(t, filepath.Join(home, "swarm.db"), Options{})
	require.NoError(t, os.MkdirAll(filepath.Join(home, "runs", "sapo-4-4-1"), 0o700))
	require.Equal(t, "run-1 new sapo-4-4-2", outcomes(importInto(t, s, extractOf(t, reader, testRun))))
}

// Other runs in a file, and the labels of GPUs that result from them, do not change a run's identity.
func TestARunIsTheSameWhateverItCameWith(t *testing.T) {
	there, reader := extractable(t)
	_, err := there.db.Exec(`INSERT INTO devices (run, uuid, time, gpu, name, memory_total_bytes, memory_used_bytes, unattributed_bytes)
VALUES ('run-1', 'GPU-b', 5, 0, 'H100', 1, 1, 0), ('other-1', 'GPU-a', 5, 0, 'H100', 1, 1, 0)`)
	require.NoError(t, err)
	ended(t, there, RunDone, testRun, "other-1")
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
	require.Equal(t, "run-1 new sapo-4-4-1", outcomes(importInto(t, s, extractOf(t, reader, testRun))))
	require.Equal(t, "other-1 new other-1\nrun-1 unchanged sapo-4-4-1", outcomes(sortedBySource(importInto(t, s, extractOf(t, reader, testRun, "other-1")))))
}

// An experiment's name refers to this home's own run, even if an imported run is newer.
func TestAnOwnRunComesBeforeImportedOnes(t *testing.T) {
	there, reader := extractable(t)
	ended(t, there, RunDone, testRun)
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
	own := aRun()
	own.Run, own.Started = "sapo-4-4-1", own.Started-50
	require.NoError(t, s.StartRun(t.Context(), own))
	record(t, s, event.Event{Type: event.TypeRunEnded, Run: own.Run, Time: own.Started + 1, State: RunStopped})
	importInto(t, s, extractOf(t, reader, testRun))
	here := readerOf(t, s)
	for _, name := range []string{"", own.Experiment} {
		newest, err := here.Snapshot(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, own.Run, newest.Run.Run)
	}
	current, err := here.CurrentRuns(t.Context(), 5)
	require.NoError(t, err)
	require.Equal(t, []string{own.Run}, current)
}

// A run whose versions document cannot be marked must still count as imported.
func TestEveryImportedRunIsMarked(t *testing.T) {
	there, reader := extractable(t)
	ended(t, there, RunDone, testRun)
	_, err := there.db.Exec(`UPDATE runs SET versions = '[]'`)
	require.NoError(t, err)
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
	runs := importInto(t, s, extractOf(t, reader, testRun))
	require.True(t, snapshotOf(t, s, runs[0].Run).Run.Imported())
}

// An untrusted file may contain any names.
func TestNamesAndTimesThatCantBeAreRefused(t *testing.T) {
	for name, spoil := range map[string]string{
		"experiment": `UPDATE runs SET experiment = '../../etc'`,
		"time":       `UPDATE runs SET started = 1e300, resumed = 1e300`,
		"no number":  `UPDATE runs SET ended = 9e999`,
		"state":      `UPDATE runs SET state = char(27) || '[2J'`,
		"task":       `UPDATE task_rewards SET task = 'a' || char(27)`,
		"node":       `INSERT INTO nodes (run, node) SELECT run, '../x' FROM runs`,
	} {
		t.Run(name, func(t *testing.T) {
			there, reader := extractable(t)
			ended(t, there, RunDone, testRun)
			_, err := there.db.Exec(spoil + " WHERE run = 'run-1'")
			require.NoError(t, err)
			s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
			_, err = s.ImportRuns(t.Context(), extractOf(t, reader, testRun), false)
			var bad *Error
			require.ErrorAs(t, err, &bad)
			require.Equal(t, [3]int{}, count(t, s))
			var runs int
			require.NoError(t, s.db.QueryRow("SELECT count(*) FROM runs").Scan(&runs))
			require.Zero(t, runs)
		})
	}
}
