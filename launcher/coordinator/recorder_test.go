package coordinator

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// recorderOf returns the recorder of a run that has ended but for what it still reports.
func recorderOf(t *testing.T, p plan.Planned, nodes ...string) *recorder {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "swarm.db"), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.StartRun(t.Context(), store.Run{Run: "e-1", Experiment: "e", Rounds: 200, NodeIDs: nodes, Started: 1}))
	quiet := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &Run{run: "e-1", p: p, nodeIDs: nodes, store: s, clock: newRunClock(0)}
	r := newRecorder(ctx, c, terminal.NewFeed(), nil, quiet, quiet, func(err error) { require.NoError(t, err) }, nil)
	t.Cleanup(r.keep.close)
	return r
}

// A node that is given up before it has loaded will load no more, so others need not wait for its memory to show.
func TestAGivenUpNodeKeepsNoTurn(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	turn, err := plan.TakeTurn()
	require.NoError(t, err)
	r := recorderOf(t, plan.Planned{Turn: turn}, "node_0", "node_1")
	r.Record(event.Event{Type: event.TypeLoaded, Node: "node_0", Time: event.Now(), Loaded: &event.Loaded{}})
	_, err = plan.TakeTurn()
	require.Error(t, err, "node_1 is to load")
	r.Record(event.Event{Type: event.TypeGiveUp, Node: "node_1", Time: event.Now(), Cause: event.CauseOutOfMemory})
	again, err := plan.TakeTurn()
	require.NoError(t, err)
	again.Release()
}
