package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

func hostSample(at float64, m event.Memory) event.Event {
	return event.Event{Type: event.TypeMemory, Run: testRun, Node: "node_0", Time: at, Memory: &m}
}

func TestAProportionalShareIsKeptBesideTheResidentSet(t *testing.T) {
	s := startedStore(t, Options{})
	host := func() []any {
		n := snapshot(t, s, testRun).Nodes[0]
		now, peak, kind := n.Host()
		return []any{now, peak, kind, n.RSSBytes, n.PeakRSSBytes}
	}
	record(t, s, hostSample(110, event.Memory{RSSBytes: 30, PeakRSSBytes: 40}))
	require.Equal(t, []any{int64(30), int64(40), HostRSS, int64(30), int64(40)}, host(), "nobody told of a share")
	record(t, s, hostSample(112, event.Memory{RSSBytes: 31, PeakRSSBytes: 41, PSSBytes: 10, PeakPSSBytes: 20}))
	require.Equal(t, []any{int64(10), int64(20), HostPSS, int64(31), int64(41)}, host())
	record(t, s, hostSample(105, event.Memory{RSSBytes: 5, PeakRSSBytes: 6, PSSBytes: 25}))
	require.Equal(t, []any{int64(10), int64(25), HostPSS, int64(31), int64(41)}, host(), "of an older sample the peak counts")
	samples, err := readerOf(t, s).Memory(t.Context(), testRun, 0, 0)
	require.NoError(t, err)
	require.Equal(t, []MemorySample{
		{"node_0", 100, 5, 6, 0, 0, 25, 25}, {"node_0", 110, 31, 41, 0, 0, 10, 20},
	}, samples)
	record(t, s, hostSample(121, event.Memory{RSSBytes: 32, PeakRSSBytes: 41}))
	require.Equal(t, []any{int64(32), int64(41), HostRSS, int64(32), int64(41)}, host(), "both figures are of one kind")
}

// A database of the schema before proportional shares shows the resident set, before and after its migration.
func TestAnOlderDatabaseShowsTheResidentSet(t *testing.T) {
	path := olderDatabase(t, schemaShares-1, `
INSERT INTO runs (run, experiment, state, seed, rounds, nodes, num_train_samples, num_transplant_trees, num_generations, config, plan, versions,
  started, resumed) VALUES ('old-1', 'old', 'stopped', 1, 1, 1, 1, 1, 1, '{}', '{}', '{}', 1, 1);
INSERT INTO nodes (run, node, rss_bytes, peak_rss_bytes) VALUES ('old-1', 'node_0', 7, 9);
INSERT INTO memory (run, node, time, rss_bytes, peak_rss_bytes, device_bytes, device_peak_bytes) VALUES ('old-1', 'node_0', 10, 7, 9, 0, 0)`)
	check := func(r *Reader) {
		s, err := r.Snapshot(t.Context(), "old-1")
		require.NoError(t, err)
		now, peak, kind := s.Nodes[0].Host()
		require.Equal(t, []any{int64(7), int64(9), HostRSS}, []any{now, peak, kind})
		samples, err := r.Memory(t.Context(), "old-1", 0, 0)
		require.NoError(t, err)
		require.Equal(t, []MemorySample{{Node: "node_0", Time: 10, RSSBytes: 7, PeakRSSBytes: 9}}, samples)
		require.EqualValues(t, 7, samples[0].Host())
	}
	before, err := OpenReader(t.Context(), path)
	require.NoError(t, err)
	check(before)
	require.NoError(t, before.Close())
	check(readerOf(t, openStore(t, path, Options{})))
}
