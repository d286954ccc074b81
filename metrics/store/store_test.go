package store

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

const testRun = "run-1"

func openStore(t testing.TB, path string, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// startedStore returns a store in a new file, with one run started.
func startedStore(t testing.TB, opts Options) *Store {
	t.Helper()
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), opts)
	require.NoError(t, s.StartRun(t.Context(), aRun()))
	return s
}

func aRun() Run {
	return Run{
		Run: testRun, Experiment: "sapo-4-4", Preset: "sapo-4-4", Model: "gpt2", Device: "cpu", Seed: 7, Rounds: 40,
		NodeIDs: []string{"node_0", "node_1"}, NumTrainSamples: 4, NumTransplantTrees: 4, NumGenerations: 8,
		Config: json.RawMessage(`{"seed":7}`), Host: "h", PID: 1234, StartTicks: 99, BootID: "b", Started: 100,
	}
}

func aRound(node string, round int, at, reward float64) event.Event {
	return event.Event{Type: event.TypeRound, Time: at, Run: testRun, Node: node, Round: &event.Round{
		Round: round, Reward: reward, Loss: 0.5, Completions: 32, Steps: 1, Late: true,
		Tasks: []event.TaskReward{{Task: "bf", Completions: 8, RewardSum: 2}, {Task: "arc_1d", Completions: 24, RewardSum: 1}},
		Peers: []event.Peer{{Node: "node_1", Available: 4, Rejected: 1, Filtered: 1, Used: 2, Late: true}},
	}}
}

func record(t testing.TB, s *Store, events ...event.Event) {
	t.Helper()
	for _, e := range events {
		require.NoError(t, s.Record(context.Background(), e))
	}
	require.NoError(t, s.Flush(context.Background()))
}

func snapshot(t testing.TB, s *Store, name string) Snapshot {
	t.Helper()
	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	got, err := r.Snapshot(t.Context(), name)
	require.NoError(t, err)
	return got
}

func TestLifeOfARun(t *testing.T) {
	s := startedStore(t, Options{})
	one, zero := 1, 0
	record(t, s,
		event.Event{Type: event.TypeRunStarted, Run: testRun, Time: 100},
		event.Event{Type: event.TypeSpawn, Run: testRun, Node: "node_0", Time: 101, PID: 50},
		event.Event{Type: event.TypeLoaded, Run: testRun, Node: "node_0", Time: 102, Loaded: &event.Loaded{Model: "gpt2", Parameters: 124e6,
			Torch: "2.4", Device: "cuda:0", Seconds: 3, SelfTestMaxAbsDiff: 1e-6}},
		event.Event{Type: event.TypeState, Run: testRun, Node: "node_0", Time: 103, State: event.StateGenerating, RoundIndex: 1},
		aRound("node_0", 0, 104, 0.25),
		event.Event{Type: event.TypeMemory, Run: testRun, Node: "node_0", Time: 105, Memory: &event.Memory{RSSBytes: 10, PeakRSSBytes: 30}},
		event.Event{Type: event.TypeMemory, Run: testRun, Node: "node_0", Time: 106, Memory: &event.Memory{RSSBytes: 20, PeakRSSBytes: 20}},
		event.Event{Type: event.TypeCheckpoint, Run: testRun, Node: "node_0", Time: 107, Checkpoint: &event.Checkpoint{Round: 1, Path: "p", WeightHash: "w"}},
		event.Event{Type: event.TypeExit, Run: testRun, Node: "node_0", Time: 108, Cause: event.CauseOutOfMemory, Message: "oom", ExitCode: &one},
		event.Event{Type: event.TypeRestart, Run: testRun, Node: "node_0", Time: 108, Seconds: 2},
		event.Event{Type: event.TypeLease, Run: testRun, Node: "node_0", Time: 108, Lease: &event.Lease{ID: 1}},
	)
	got := snapshot(t, s, "sapo-4-4")
	require.Equal(t, testRun, got.Run.Run)
	require.Equal(t, RunRunning, got.Run.State)
	require.JSONEq(t, `{"seed":7}`, string(got.Run.Config))
	require.Len(t, got.Nodes, 2, "planned nodes are there before their first event")
	n := got.Nodes[0]
	require.Equal(t, Node{
		Node: "node_0", State: event.StateFailed, StateTime: 108, WorkingRound: 1, Restarts: 1, Cause: event.CauseOutOfMemory, Message: "oom",
		RoundsDone: 1, LastRound: 0, LastReward: 0.25, CumulativeReward: 0.25, RSSBytes: 20, PeakRSSBytes: 30,
		Model: "gpt2", Parameters: 124e6, Torch: "2.4", Device: "cuda:0", LastEvent: 108,
	}, n)
	require.Equal(t, event.StateQueued, got.Nodes[1].State)
	require.True(t, math.IsNaN(got.Nodes[1].LastReward))
	require.Equal(t, []RoundReward{{Round: 0, Node: "node_0", Time: 104, Reward: 0.25}}, got.Recent)

	record(t, s,
		event.Event{Type: event.TypeSpawn, Run: testRun, Node: "node_0", Time: 110, PID: 51},
		event.Event{Type: event.TypeState, Run: testRun, Node: "node_0", Time: 120, State: event.StateDone, RoundIndex: 2},
		event.Event{Type: event.TypeExit, Run: testRun, Node: "node_0", Time: 121, ExitCode: &zero},
		event.Event{Type: event.TypeGiveUp, Run: testRun, Node: "node_1", Time: 121, Cause: event.CauseModel, Message: "no weights"},
		event.Event{Type: event.TypeRunEnded, Run: testRun, Time: 122, State: RunLost, Message: "1 of 2"},
	)
	got = snapshot(t, s, testRun)
	require.Equal(t, event.StateDone, got.Nodes[0].State, "an orderly exit leaves the node's own last state")
	require.Zero(t, got.Nodes[0].PID)
	require.Equal(t, event.StateGivenUp, got.Nodes[1].State)
	require.Equal(t, []any{RunLost, "1 of 2", 122.0}, []any{got.Run.State, got.Run.Message, got.Run.Ended})

	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	entries, err := r.Timeline(t.Context(), testRun, 0, 100)
	require.NoError(t, err)
	var types []event.Type
	for _, x := range entries {
		types = append(types, x.Event.Type)
	}
	require.Equal(t, []event.Type{event.TypeRunStarted, event.TypeSpawn, event.TypeExit, event.TypeRestart, event.TypeSpawn,
		event.TypeExit, event.TypeGiveUp, event.TypeRunEnded}, types)
	require.Equal(t, 1, *entries[2].Event.ExitCode)
	later, err := r.Timeline(t.Context(), testRun, entries[5].ID, 1)
	require.NoError(t, err)
	require.Equal(t, entries[6:7], later)

	c, err := r.Checkpoint(t.Context(), testRun, "node_0")
	require.NoError(t, err)
	require.Equal(t, &event.Checkpoint{Round: 1, Path: "p", WeightHash: "w"}, c)
	c, err = r.Checkpoint(t.Context(), testRun, "node_1")
	require.NoError(t, err)
	require.Nil(t, c)

	runs, err := r.Runs(t.Context(), Filter{Experiments: []string{"other", "sapo-4-4"}, States: []string{RunLost}})
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.Equal(t, []any{1, 1, 1, 0.25, 1},
		[]any{runs[0].NodesSeen, runs[0].NodeRounds, runs[0].RoundsDone, runs[0].CumulativeReward, runs[0].Restarts})
	runs, err = r.Runs(t.Context(), Filter{States: []string{RunDone}})
	require.NoError(t, err)
	require.Empty(t, runs)
	_, err = r.Snapshot(t.Context(), "nothing")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestResumedRunKeepsItsPast(t *testing.T) {
	s := startedStore(t, Options{})
	ended := event.Event{Type: event.TypeRunEnded, Run: testRun, Time: 150, State: RunStopped}
	record(t, s, aRound("node_0", 0, 104, 0.25),
		event.Event{Type: event.TypeSpawn, Run: testRun, Node: "node_0", Time: 101, PID: 50},
		aRound("node_1", 39, 103, 0.25),
		event.Event{Type: event.TypeState, Run: testRun, Node: "node_1", Time: 104, State: event.StateDone}, ended)
	again := aRun()
	again.Started, again.PID = 200, 77
	require.NoError(t, s.StartRun(t.Context(), again))
	record(t, s, ended) // repeats the end of the first attempt
	got := snapshot(t, s, "")
	require.Equal(t, []any{RunRunning, 100.0, 200.0, 0.0, 2, 77},
		[]any{got.Run.State, got.Run.Started, got.Run.Resumed, got.Run.Ended, got.Run.Attempts, got.Run.PID})
	require.Equal(t, []any{event.StateQueued, 0, 0.25}, []any{got.Nodes[0].State, got.Nodes[0].PID, got.Nodes[0].CumulativeReward})
	require.Equal(t, event.StateDone, got.Nodes[1].State)
	again.Started, again.Rounds = 300, 80
	require.NoError(t, s.StartRun(t.Context(), again))
	require.Equal(t, event.StateQueued, snapshot(t, s, "").Nodes[1].State, "more rounds are wanted")
}

func TestRoundDoneAgainReplacesTheFirst(t *testing.T) {
	s := startedStore(t, Options{})
	again := aRound("node_0", 1, 110, 0.125)
	again.Round.Peers, again.Round.Tasks = nil, again.Round.Tasks[:1]
	record(t, s, aRound("node_0", 0, 104, 0.25), aRound("node_0", 1, 105, 0.5), again, aRound("node_0", 1, 105, 0.5))
	n := snapshot(t, s, testRun).Nodes[0]
	require.Equal(t, []any{2, 1, 0.125, 0.375}, []any{n.RoundsDone, n.LastRound, n.LastReward, n.CumulativeReward})
	tables := dump(t, s)
	require.Len(t, tables["task_rewards"], 3)
	require.Len(t, tables["peers"], 1)
}

func TestNotFiniteIsNamedNotLost(t *testing.T) {
	s := startedStore(t, Options{})
	bad := aRound("node_0", 1, 105, math.NaN())
	bad.Round.GradNorm, bad.Round.KL = math.Inf(1), math.Inf(-1)
	bad.Round.Tasks[0].RewardSum = math.NaN()
	record(t, s, aRound("node_0", 0, 104, 0.25), bad,
		event.Event{Type: event.TypeLoaded, Run: testRun, Node: "node_0", Time: 103, Loaded: &event.Loaded{SelfTestMaxAbsDiff: math.NaN()}})
	var status string
	var reward, norm, kl, loss any
	require.NoError(t, s.db.QueryRow(`SELECT non_finite, reward, grad_norm, kl, loss FROM rounds WHERE round = 1`).
		Scan(&status, &reward, &norm, &kl, &loss))
	require.Equal(t, []any{"reward=nan kl=-inf grad_norm=+inf", nil, nil, nil, 0.5}, []any{status, reward, norm, kl, loss})
	n := snapshot(t, s, testRun).Nodes[0]
	require.True(t, math.IsNaN(n.LastReward))
	require.InDelta(t, 0.25, n.CumulativeReward, 0)
	require.Equal(t, 2, n.RoundsDone)
}

// JSON has no NaN: a node writes 0 and lists the field in NonFinite.
func TestNotFiniteFromTheWire(t *testing.T) {
	s := startedStore(t, Options{})
	refused := aRound("node_0", 0, 104, 0.25)
	refused.Round.Loss, refused.Round.GradNorm = 0, 0
	refused.Round.NonFinite = map[string]string{"loss": "NaN", "grad_norm": "+Inf"}
	record(t, s, refused)
	var status string
	var reward, norm, loss any
	require.NoError(t, s.db.QueryRow(`SELECT non_finite, reward, grad_norm, loss FROM rounds`).Scan(&status, &reward, &norm, &loss))
	require.Equal(t, []any{"loss=nan grad_norm=+inf", 0.25, nil, nil}, []any{status, reward, norm, loss})
}

func TestMemoryRowsAreBounded(t *testing.T) {
	s := startedStore(t, Options{MemoryInterval: 10 * time.Second})
	for i := range 100 {
		record(t, s, event.Event{Type: event.TypeMemory, Run: testRun, Node: "node_0", Time: 1000 + float64(i)/2,
			Memory: &event.Memory{RSSBytes: int64(100 - i), DeviceBytes: int64(i)}})
	}
	rows := dump(t, s)["memory"]
	require.Len(t, rows, 5)
	require.Contains(t, rows[1], "1010 80 80 39 39", "highest of the slot")
}

func TestRecordRefuses(t *testing.T) {
	s := startedStore(t, Options{})
	for name, e := range map[string]event.Event{
		"unknown run": {Type: event.TypeWarning, Run: "run-2", Time: 1},
		"no type":     {Run: testRun, Time: 1},
		"no time":     {Type: event.TypeWarning, Run: testRun},
		"no node":     {Type: event.TypeSpawn, Run: testRun, Time: 1},
		"no payload":  {Type: event.TypeRound, Run: testRun, Node: "node_0", Time: 1},
		"no state":    {Type: event.TypeRunEnded, Run: testRun, Time: 1},
	} {
		require.Error(t, s.Record(t.Context(), e), name)
	}
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Record(t.Context(), aRound("node_0", 0, 1, 1)), ErrClosed)
	require.NoError(t, s.Close(), "closing again")
}

func TestPoisonedEventDoesNotTakeItsBatch(t *testing.T) {
	var warned []error
	s := startedStore(t, Options{Warn: func(err error) { warned = append(warned, err) }})
	_, err := s.db.Exec(`CREATE TRIGGER poison BEFORE INSERT ON rounds WHEN NEW.round = 13 BEGIN SELECT raise(ABORT, 'thirteen'); END`)
	require.NoError(t, err)
	record(t, s, aRound("node_0", 12, 1, 1), aRound("node_9", 13, 2, 1), aRound("node_0", 14, 3, 1), aRound("node_9", 15, 3, 1))
	got := snapshot(t, s, testRun)
	require.Len(t, got.Recent, 3)
	require.Len(t, got.Nodes, 3)
	require.Len(t, warned, 1)
	require.ErrorContains(t, warned[0], "thirteen")
}

func TestReaderWhileWriting(t *testing.T) {
	s := startedStore(t, Options{MaxBatch: 7})
	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	const rounds = 300
	recorded := make(chan error, 1)
	go func() {
		for i := range rounds {
			if err := s.Record(context.Background(), aRound("node_0", i, float64(200+i), 1)); err != nil {
				recorded <- err
				return
			}
		}
		recorded <- s.Flush(context.Background())
	}()
	seen, deadline := 0, time.Now().Add(20*time.Second)
	for seen < rounds && time.Now().Before(deadline) {
		got, err := r.Snapshot(t.Context(), testRun)
		require.NoError(t, err)
		n := got.Nodes[0]
		require.GreaterOrEqual(t, n.RoundsDone, seen)
		seen = n.RoundsDone
		require.InDelta(t, float64(seen), n.CumulativeReward, 0, "sums and rows are of one moment")
		require.Len(t, got.Recent, min(seen, RecentRounds))
	}
	require.NoError(t, <-recorded)
	require.Equal(t, rounds, seen)
	_, err = r.db.Exec("DELETE FROM runs")
	require.Error(t, err, "a reader can't write")
}

func TestRefusedFiles(t *testing.T) {
	dir := t.TempDir()
	newer := filepath.Join(dir, "newer.db")
	s := openStore(t, newer, Options{})
	_, err := s.db.Exec("PRAGMA user_version = 99")
	require.NoError(t, err)
	require.NoError(t, s.Close())

	foreign := filepath.Join(dir, "foreign.db")
	s = openStore(t, foreign, Options{})
	_, err = s.db.Exec("PRAGMA application_id = 42")
	require.NoError(t, err)
	require.NoError(t, s.Close())

	text := filepath.Join(dir, "notes.txt")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("not a database\n", 100)), 0o600))

	for path, want := range map[string]string{
		newer:   "written by a newer swarm (schema 99, this one knows 14)",
		foreign: "not a swarm database",
		text:    "not a swarm database",
		dir:     "not a file",
	} {
		before, _ := os.ReadFile(path)
		_, err := Open(t.Context(), path, Options{})
		var e *Error
		require.ErrorAs(t, err, &e)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
		require.NotEmpty(t, e.Remedy())
		_, err = OpenReader(t.Context(), path)
		require.ErrorContains(t, err, want)
		after, _ := os.ReadFile(path)
		require.Equal(t, before, after, "a refused file stays as it was")
	}
	_, err = OpenReader(t.Context(), filepath.Join(dir, "none.db"))
	require.ErrorIs(t, err, ErrNoDatabase)
	empty := filepath.Join(dir, "odd name%20?#.db")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, openStore(t, empty, Options{}).Close())
	info, err := os.Stat(empty)
	require.NoError(t, err)
	require.NotZero(t, info.Size())
}
