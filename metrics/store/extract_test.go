package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// extractable returns two runs. One of them has data in every table that Extract copies or omits.
func extractable(t *testing.T) (*Store, *Reader) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "swarm.db")
	s := openStore(t, path, Options{})
	other := aRun()
	other.Run, other.Experiment = "other-1", "other"
	for _, run := range []Run{aRun(), other} {
		require.NoError(t, s.StartRun(t.Context(), run))
		for round := range 2*25 + 3 {
			e := aRound("node_0", round, 1000+float64(round)+0.123456789, 1/float64(3+round))
			e.Run = run.Run
			e.Round.StepTime, e.Round.RewardStd = math.Pi, math.E
			e.Round.Tasks = []event.TaskReward{{Task: "bf", Completions: 8, RewardSum: float64(round)}}
			e.Round.Peers = []event.Peer{{Node: "node_1", Used: 1}}
			record(t, s, e)
		}
		record(t, s,
			event.Event{Run: run.Run, Type: event.TypeSpawn, Node: "node_0", Time: 2000, PID: 1},
			event.Event{Run: run.Run, Type: event.TypeWarning, Node: "node_0", Time: 2001, Message: "hot"},
			event.Event{Run: run.Run, Type: event.TypeEval, Node: "node_0", Time: 2002, Eval: &event.Eval{Round: 3, Set: "s", Generations: 4,
				Questions: []event.EvalQuestion{{Task: "bf", Correct: 1, RewardSum: 1.5}}}})
	}
	require.NoError(t, s.Flush(t.Context()))
	reader, err := OpenReader(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	return s, reader
}

func TestAnExtractHasWhatStatisticsNeedOfItsRunsAlone(t *testing.T) {
	_, reader := extractable(t)
	path := filepath.Join(t.TempDir(), "small.db")
	rows, err := reader.Extract(t.Context(), path, []string{testRun})
	require.NoError(t, err)
	require.Positive(t, rows)
	small, err := OpenFile(t.Context(), path)
	require.NoError(t, err)
	defer func() { require.NoError(t, small.Close()) }()

	want, err := reader.Runs(t.Context(), Filter{Experiments: []string{aRun().Experiment}})
	require.NoError(t, err)
	got, err := small.Runs(t.Context(), Filter{})
	require.NoError(t, err)
	for i := range want {
		want[i].Host, want[i].BootID, want[i].PID, want[i].StartTicks = "", "", 0, 0
	}
	require.Equal(t, want, got, "runs with their sums, to the last digit, and no other run")
	for _, same := range []string{"evals", "eval_questions"} {
		require.Equal(t, rowsOf(t, reader, same), rowsOf(t, small, same), same)
	}
	for _, none := range []string{"peers", "memory", "checkpoints"} {
		require.Empty(t, rowsOf(t, small, none), none)
	}
	entries, err := small.Timeline(t.Context(), testRun, 0, 100)
	require.NoError(t, err)
	for _, e := range entries {
		require.NotEqual(t, event.TypeSpawn, e.Event.Type)
	}
	require.NotEmpty(t, entries)

	wantRewards, err := reader.RoundRewards(t.Context(), testRun)
	require.NoError(t, err)
	rewards, err := small.RoundRewards(t.Context(), testRun)
	require.NoError(t, err)
	require.Len(t, rewards, len(wantRewards))
	for i, r := range rewards {
		require.Equal(t, wantRewards[i].Reward, r.Reward)
		require.InDelta(t, wantRewards[i].Time, r.Time, 1.0/2048)
	}
	steps, err := small.RoundValues(t.Context(), testRun, "step_time", 0)
	require.NoError(t, err)
	require.Equal(t, math.Round(math.Pi*1024)/1024, steps[0].Value)
	whole, err := reader.TaskTotals(t.Context(), testRun, 0)
	require.NoError(t, err)
	kept, err := small.TaskTotals(t.Context(), testRun, 0)
	require.NoError(t, err)
	require.Equal(t, whole, kept, "sums by task stay")
	require.Len(t, rowsOf(t, small, "task_rewards"), 3, "one row for each stretch of rounds")
}

func TestEqualRunsMakeEqualExtracts(t *testing.T) {
	s, reader := extractable(t)
	dir := t.TempDir()
	extract := func(name string) []byte {
		_, err := reader.Extract(t.Context(), filepath.Join(dir, name), []string{testRun})
		require.NoError(t, err)
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return data
	}
	first := extract("a")
	e := aRound("node_1", 0, 3000, 0.5)
	e.Run = "other-1"
	record(t, s, e)
	require.NoError(t, s.Flush(t.Context()))
	require.True(t, bytes.Equal(first, extract("b")), "another run went on meanwhile")
	_, err := reader.Extract(t.Context(), filepath.Join(dir, "a"), []string{testRun})
	require.ErrorIs(t, err, os.ErrExist, "nothing is replaced")
}

func TestAnInterruptedExtractLeavesNoFile(t *testing.T) {
	_, reader := extractable(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	path := filepath.Join(t.TempDir(), "small.db")
	_, err := reader.Extract(ctx, path, []string{testRun})
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, path)
}

func TestOnlyExtractsAreTakenForExtracts(t *testing.T) {
	s, reader := extractable(t)
	dir := t.TempDir()
	small := filepath.Join(dir, "small.db")
	_, err := reader.Extract(t.Context(), small, []string{testRun})
	require.NoError(t, err)
	require.True(t, IsExtract(small))
	require.True(t, IsExtract(packed(t, small)))
	require.False(t, IsExtract(s.Path()), "runs are recorded in it")
	require.False(t, IsExtract(filepath.Join(dir, "none")))
	backup := filepath.Join(dir, "backup.db")
	vacuumInto(t, s.Path(), backup)
	require.False(t, IsExtract(backup), "a whole database, though without a log")
	require.False(t, IsExtract(packed(t, backup)))
	again := filepath.Join(dir, "again.db")
	vacuumInto(t, small, again)
	require.True(t, IsExtract(again), "a copy of an extract is one")
	opened, err := OpenFile(t.Context(), small)
	require.NoError(t, err, "the mark disturbs nothing")
	require.NoError(t, opened.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text"), []byte(strings.Repeat("SQLite format 3\x00", 20)), 0o600))
	require.False(t, IsExtract(filepath.Join(dir, "text")))
}

func TestACompressedDatabaseIsReadAndCleanedUp(t *testing.T) {
	_, reader := extractable(t)
	t.Setenv("TMPDIR", t.TempDir())
	small := filepath.Join(t.TempDir(), "small.db")
	_, err := reader.Extract(t.Context(), small, []string{testRun})
	require.NoError(t, err)
	opened, err := OpenFile(t.Context(), packed(t, small))
	require.NoError(t, err)
	runs, err := opened.Runs(t.Context(), Filter{})
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.NoError(t, opened.Close())
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAStrangersFileIsRefused(t *testing.T) {
	_, reader := extractable(t)
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	small := filepath.Join(dir, "small.db")
	_, err := reader.Extract(t.Context(), small, []string{testRun})
	require.NoError(t, err)
	whole, err := os.ReadFile(small)
	require.NoError(t, err)
	changed := func(name string, change func(data []byte) []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, change(bytes.Clone(whole)), 0o600))
		return path
	}
	with := func(name, statement string) string {
		path := changed(name, func(data []byte) []byte { return data })
		db, err := sql.Open("sqlite3", path)
		require.NoError(t, err)
		_, err = db.Exec(statement)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		return path
	}
	half := packed(t, small)
	data, err := os.ReadFile(half)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(half, data[:len(data)/2], 0o600))
	for name, path := range map[string]string{
		"a virtual table": with("virtual", "CREATE VIRTUAL TABLE x USING rtree (id, low, high); PRAGMA writable_schema = ON; "+
			"UPDATE sqlite_schema SET sql = 'CREATE/**/' || substr(sql, 8) WHERE name = 'x'"),
		"empty":           changed("empty", func([]byte) []byte { return nil }),
		"one byte":        changed("one", func(data []byte) []byte { return data[:1] }),
		"text":            changed("text", func([]byte) []byte { return []byte("round,reward\n") }),
		"cut off":         changed("cut", func(data []byte) []byte { return data[:len(data)/2] }),
		"half compressed": half,
		"packed text":     packed(t, changed("t", func([]byte) []byte { return []byte("round,reward\n") })),
		"overwritten": changed("over", func(data []byte) []byte {
			copy(data[len(data)/2:], bytes.Repeat([]byte{0xAA}, len(data)/4))
			return data
		}),
		"another program's": with("id", "PRAGMA application_id = 7"),
		"newer":             with("newer", "PRAGMA user_version = 999"),
		"a view":            with("view", "DROP TABLE peers; CREATE VIEW peers AS SELECT 1 AS run"),
		"a trigger":         with("trigger", "CREATE TRIGGER x AFTER INSERT ON runs BEGIN SELECT 1; END"),
	} {
		opened, err := OpenFile(t.Context(), path)
		var refused *Error
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, path, refused.Path, name)
		require.Nil(t, opened)
	}
	_, err = OpenFile(t.Context(), filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left, "nothing of what was refused stays")
}

// Unpacking stops when a small file exceeds its limit, before it fills the disk. A file that does not begin like a
// database is not unpacked at all.
func TestWhatACompressedFileMayHoldGrowsWithIt(t *testing.T) {
	require.Equal(t, int64(64<<20), mostUnpacked(0))
	require.Equal(t, int64(64<<20+200_000_000), mostUnpacked(1_000_000))
	require.Equal(t, int64(4<<30), mostUnpacked(1<<40))
	require.Equal(t, int64(4<<30), mostUnpacked(math.MaxInt64))

	_, reader := extractable(t)
	dir := t.TempDir()
	small, zeros := filepath.Join(dir, "small.db"), filepath.Join(dir, "zeros")
	_, err := reader.Extract(t.Context(), small, []string{testRun})
	require.NoError(t, err)
	data, err := os.ReadFile(small)
	require.NoError(t, err)
	_, err = openPacked(t.Context(), "given", bytes.NewReader(gzipped(t, data)), int64(len(data)-1))
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "unpacks to more than")
	opened, err := openPacked(t.Context(), "given", bytes.NewReader(gzipped(t, data)), int64(len(data)))
	require.NoError(t, err)
	require.NoError(t, opened.Close())

	require.NoError(t, os.WriteFile(zeros, gzipped(t, make([]byte, 1<<20)), 0o600))
	t.Setenv("TMPDIR", filepath.Join(dir, "none")) // not writable
	_, err = OpenFile(t.Context(), zeros)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []string{zeros, "not a swarm database"}, []string{refused.Path, refused.Reason})
}

// vacuumInto copies a database as a user would do manually.
func vacuumInto(t *testing.T, from, to string) {
	t.Helper()
	db, err := sql.Open("sqlite3", from)
	require.NoError(t, err)
	_, err = db.Exec("VACUUM INTO ?", to)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// packed compresses a file and writes the result next to it.
func packed(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".gz", gzipped(t, data), 0o600))
	return path + ".gz"
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func rowsOf(t *testing.T, r *Reader, table string) (rows [][]any) {
	t.Helper()
	require.NoError(t, r.Dump(t.Context(), table, testRun, "", func(row []any) error {
		rows = append(rows, append([]any{}, row...))
		return nil
	}))
	return rows
}
