package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

func TestCurrentRunsAreTheRunningAndTheLastEnded(t *testing.T) {
	s := openStore(t, t.TempDir()+"/swarm.db", Options{})
	r := readerOf(t, s)
	current := func(limit int) []string {
		got, err := r.CurrentRuns(t.Context(), limit)
		require.NoError(t, err)
		return got
	}
	require.Empty(t, current(3))
	for i := range 6 {
		run := aRun()
		run.Run, run.Started = fmt.Sprint("run-", i), float64(100+i)
		require.NoError(t, s.StartRun(t.Context(), run))
		if i < 3 {
			record(t, s, event.Event{Type: event.TypeRunEnded, Run: run.Run, Time: float64(300 - i), State: RunDone})
		}
	}
	require.Equal(t, []string{"run-5", "run-4", "run-3", "run-0"}, current(10))
	require.Equal(t, []string{"run-5", "run-0"}, current(1))
}

func TestMemoryStepsAreCountedByCauseAndAction(t *testing.T) {
	s := startedStore(t, Options{})
	step := func(at float64, cause, action string) event.Event {
		return event.Event{Type: event.TypeMemoryStep, Run: testRun, Node: "node_0", Time: at,
			MemoryStep: &event.MemoryStep{Phase: "update", Cause: cause, Action: action}}
	}
	record(t, s, step(101, event.MemoryOwnCap, event.ActionClearCache), step(101, event.MemoryOwnCap, event.ActionClearCache),
		step(102, event.MemoryOwnCap, event.ActionClearCache), step(103, event.MemoryGPU, event.ActionShed),
		event.Event{Type: event.TypeWarning, Run: testRun, Node: "node_0", Time: 104, Message: "memory"})
	got, err := readerOf(t, s).MemorySteps(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, []MemoryStepTotal{{event.MemoryGPU, event.ActionShed, 1}, {event.MemoryOwnCap, event.ActionClearCache, 2}}, got)
}

func TestNewestDevicesAreOneSampleAGPU(t *testing.T) {
	s := startedStore(t, Options{})
	other := aRun()
	other.Run = "run-2"
	require.NoError(t, s.StartRun(t.Context(), other))
	for i := range 50 {
		for gpu, uuid := range []string{"GPU-b", "GPU-a", "GPU-c"} {
			for _, run := range []string{testRun, "run-2"} {
				record(t, s, event.Event{Type: event.TypeDevice, Run: run, Time: float64(1000 + 10*i), Device: &event.Device{
					Index: gpu, UUID: uuid, Name: "H100", MemoryTotalBytes: 80e9, MemoryUsedBytes: int64(i), Utilization: float64(i) / 100,
					PowerWatts: -1, PowerLimitWatts: 700, TemperatureCelsius: 50}})
			}
		}
	}
	r := readerOf(t, s)
	got, err := r.NewestDevices(t.Context(), testRun)
	require.NoError(t, err)
	all, err := r.Devices(t.Context(), testRun, 0)
	require.NoError(t, err)
	require.Equal(t, all[len(all)-3:], got)
	require.InDelta(t, -1, got[0].PowerWatts, 0)
	none, err := r.NewestDevices(t.Context(), "run-3")
	require.NoError(t, err)
	require.Empty(t, none)

	rows, err := r.db.Query("EXPLAIN QUERY PLAN "+newestDevicesSQL, testRun)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
		if strings.Contains(step, "devices") {
			require.Contains(t, step, "SEARCH")
		}
	}
	require.NoError(t, rows.Err())
}
