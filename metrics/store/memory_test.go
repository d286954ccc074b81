package store

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

func TestPhasesOfANodesMemory(t *testing.T) {
	s := startedStore(t, Options{})
	at := func(time float64, m event.Memory) event.Event {
		return event.Event{Type: event.TypeMemory, Run: testRun, Node: "node_0", Time: time, Memory: &m}
	}
	first := at(110, event.Memory{DeviceBytes: 9, ResidentBytes: 5, GenerateBytes: 3, UpdateBytes: 8, MicroBatch: 16, BudgetBytes: 20})
	record(t, s, first, at(120, event.Memory{DeviceBytes: 7, ResidentBytes: 6, GenerateBytes: 4, UpdateBytes: 2, MicroBatch: 8, BudgetBytes: 30}), first)
	n := snapshot(t, s, testRun).Nodes[0]
	require.Equal(t, []int64{6, 4, 8, 8, 30, 7}, []int64{n.ResidentBytes, n.GenerateBytes, n.UpdateBytes, int64(n.MicroBatch), n.BudgetBytes, n.DeviceBytes})
}

func TestMemoryStepsAreOnTheTimeline(t *testing.T) {
	s := startedStore(t, Options{})
	step := event.MemoryStep{
		Round: 3, Phase: "update", Cause: event.MemoryOwnCap, Action: event.ActionHalveMicroBatch, MicroBatch: 8,
		RequestedBytes: 1, UsedBytes: 2, CapBytes: 3, FreeBytes: 4, TotalBytes: 5,
	}
	e := event.Event{Type: event.TypeMemoryStep, Run: testRun, Node: "node_0", Time: 110, MemoryStep: &step}
	record(t, s, e, e)
	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer r.Close()
	entries, err := r.Timeline(t.Context(), testRun, 0, 10)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, &step, entries[0].Event.MemoryStep)
	require.Equal(t, event.MemoryOwnCap, entries[0].Event.Cause)
	require.Error(t, s.Record(t.Context(), event.Event{Type: event.TypeMemoryStep, Run: testRun, Node: "node_0", Time: 110}))
}

func TestDevicesKeepTheHighestOfASlot(t *testing.T) {
	s := startedStore(t, Options{})
	at := func(time float64, used, rest int64) event.Event {
		return event.Event{Type: event.TypeDevice, Run: testRun, Time: time, Device: &event.Device{
			Index: 1, UUID: "GPU-a", Name: "card", MemoryTotalBytes: 80, MemoryUsedBytes: used, UnattributedBytes: rest, Utilization: 0.5,
			PowerWatts: -1, PowerLimitWatts: 400, TemperatureCelsius: 60,
		}}
	}
	record(t, s, at(110, 40, 4), at(112, 50, 9), at(114, 30, 1), at(121, 20, 2))
	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer r.Close()
	samples, err := r.Devices(t.Context(), testRun, 0)
	require.NoError(t, err)
	require.Len(t, samples, 2)
	require.Equal(t, []int64{50, 9, 20, 2}, []int64{
		samples[0].MemoryUsedBytes, samples[0].UnattributedBytes, samples[1].MemoryUsedBytes, samples[1].UnattributedBytes,
	})
	require.Equal(t, []float64{110, -1, 400}, []float64{samples[0].Time, samples[0].PowerWatts, samples[0].PowerLimitWatts})
}

func TestFootprintsAreReplacedByProfilesAndRaisedByRuns(t *testing.T) {
	s := startedStore(t, Options{})
	key := FootprintKey{Model: "gpt2", Settings: `{"precision":"tf32"}`, Torch: "2.9", GPU: "card"}
	f := Footprint{FootprintKey: key, Resident: 1000, GenerateBase: 100, GeneratePerSequence: 10, UpdateBase: 200, UpdatePerSequence: 20, Profiled: 5}
	raise := func(resident, generate, update int64) bool {
		changed, err := s.RaiseFootprint(t.Context(), key, resident, generate, 4, update, 8, 9)
		require.NoError(t, err)
		return changed
	}
	require.False(t, raise(1, 1, 1), "there is none to raise")
	require.NoError(t, s.SaveFootprint(t.Context(), f))
	require.False(t, raise(1000, 140, 360), "exactly what was profiled")
	require.True(t, raise(900, 150, 400))

	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer r.Close()
	got, err := r.Footprints(t.Context(), "gpt2", "card")
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, []int64{1000, 110, 240}, []int64{got[0].Resident, got[0].GenerateBase, got[0].UpdateBase})
	require.Equal(t, 9.0, got[0].Raised)

	f.Resident, f.Profiled = 800, 10
	require.NoError(t, s.SaveFootprint(t.Context(), f))
	got, err = r.Footprints(t.Context(), "", "")
	require.NoError(t, err)
	require.Equal(t, []float64{800, 100, 0}, []float64{float64(got[0].Resident), float64(got[0].GenerateBase), got[0].Raised})
	require.Error(t, s.SaveFootprint(t.Context(), Footprint{FootprintKey: key}))
	got, err = r.Footprints(t.Context(), "gpt2", "another")
	require.NoError(t, err)
	require.Empty(t, got)
}

// olderDatabase returns the path of a database with an older schema and the inserted rows.
func olderDatabase(t *testing.T, schema int, inserts string) string {
	t.Helper()
	steps, err := sqlite.Migrations()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "swarm.db")
	db, err := sql.Open("sqlite3", sqlite.DSN(path, url.Values{"_journal_mode": {"WAL"}}))
	require.NoError(t, err)
	_, err = db.Exec(strings.Join(steps[:schema], "\n") + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", sqlite.ApplicationID, schema) + inserts)
	require.NoError(t, errors.Join(err, db.Close()))
	return path
}

// A database of the first schema keeps its rows when it is opened.
func TestAnOlderDatabaseIsBroughtUpToDate(t *testing.T) {
	path := olderDatabase(t, 1, `
INSERT INTO runs (run, experiment, state, seed, rounds, nodes, num_train_samples, num_transplant_trees, num_generations, config, plan, versions,
  started, resumed) VALUES ('old', 'old', 'done', 1, 1, 1, 1, 1, 1, '{}', '{}', '{}', 1, 1);
INSERT INTO nodes (run, node) VALUES ('old', 'node_0')`)
	_, err := OpenReader(t.Context(), path)
	require.ErrorContains(t, err, "older swarm")
	s := openStore(t, path, Options{})
	require.Len(t, snapshot(t, s, "old").Nodes, 1)
}

func TestOfAnOlderSampleOnlyThePeaksCount(t *testing.T) {
	s := startedStore(t, Options{})
	sample := func(at float64, rss, device int64) event.Event {
		return event.Event{Type: event.TypeMemory, Run: testRun, Node: "node_0", Time: at, Memory: &event.Memory{RSSBytes: rss, DeviceBytes: device}}
	}
	record(t, s, sample(110, 10, 7), sample(105, 50, 3))
	n := snapshot(t, s, testRun).Nodes[0]
	require.Equal(t, []int64{10, 50, 7, 7}, []int64{n.RSSBytes, n.PeakRSSBytes, n.DeviceBytes, n.DevicePeakBytes})
}
