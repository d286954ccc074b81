package query

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/workers"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// joinedRun returns a run of one node that the workers anna and bob joined. Nodes judged anna's rollouts; no node
// received any of bob's.
func joinedRun(t *testing.T) *store.Reader {
	t.Helper()
	ctx := context.Background()
	s, err := store.Open(ctx, filepath.Join(t.TempDir(), "swarm.db"), store.Options{})
	require.NoError(t, err)
	require.NoError(t, s.StartRun(ctx, store.Run{Run: "r", Experiment: "e", NodeIDs: []string{"node_0"}, Rounds: 9, Started: 100}))
	require.NoError(t, s.SaveWorker(ctx, "r", store.Worker{Worker: "anna", Host: "h", Device: "cpu", LastSeen: 150, Offered: 4, Refused: 1, Reason: "rate"},
		store.Worker{Worker: "bob", State: event.WorkerBanned, Reason: "wrong keys"}))
	tell := func(e event.Event) {
		e.Run = "r"
		require.NoError(t, s.Record(ctx, e))
	}
	tell(event.Event{Type: event.TypeJoin, Node: "anna_0", Worker: "anna", Time: 120, RoundIndex: 2})
	tell(event.Event{Type: event.TypeJoin, Node: "anna_1", Worker: "anna", Time: 120, RoundIndex: 2})
	tell(event.Event{Type: event.TypeLoaded, Node: "anna_0", Worker: "anna", Time: 121, Loaded: &event.Loaded{Model: "gpt2"}})
	tell(event.Event{Type: event.TypeRound, Node: "anna_0", Worker: "anna", Time: 130, Round: &event.Round{Round: 2, Reward: 0.5,
		Peers: []event.Peer{{Node: "anna_1", Rejected: 99}}}})
	tell(event.Event{Type: event.TypeRound, Node: "node_0", Time: 130, Round: &event.Round{Round: 2, Reward: 0.5,
		Peers: []event.Peer{{Node: "anna_0", Available: 6, Rejected: 1, Used: 3}, {Node: "anna_1", Rejected: 1}}}})
	require.NoError(t, s.Close())
	reader, err := store.OpenReader(ctx, s.Path())
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	return reader
}

func TestWorkersAreWorthWhatOthersMadeOfThem(t *testing.T) {
	reader := joinedRun(t)
	rows, err := Workers(t.Context(), reader, "r")
	require.NoError(t, err)
	require.Len(t, rows, 2)
	bob, anna := rows[0], rows[1]
	require.Equal(t, workers.Row{Worker: "anna", Host: "h", Device: "cpu", State: "connected", StateTime: anna.StateTime, Nodes: 2,
		NodeIDs: []string{"anna_0", "anna_1"}, Models: []string{"gpt2"}, Rounds: 1, RolloutsAvailable: 6, RolloutsRejected: 2, RolloutsUsed: 3,
		UsefulRatio: 0.75, UsedRatio: 0.5, Offered: 4, Refused: 1, Reason: "rate", FirstSeen: 150, LastSeen: 150}, anna)
	text, err := json.Marshal(bob)
	require.NoError(t, err)
	require.Contains(t, string(text), `"useful_ratio":null,"used_ratio":null`, "nobody had any: not 0")
	require.Contains(t, string(text), `"state":"banned"`)
	var back workers.Row
	require.NoError(t, json.Unmarshal(text, &back))
	require.NotEqual(t, back.UsefulRatio, back.UsefulRatio, "null is no number") //nolint:testifylint // NaN
}

func TestARunWithoutWorkersHasNone(t *testing.T) {
	reader := joinedRun(t)
	_, err := Workers(t.Context(), reader, "nobody's")
	require.ErrorIs(t, err, store.ErrNotFound)
}

// A comparison names the workers that took part, and their models.
func TestACompareTellsOfWorkers(t *testing.T) {
	c, err := Compare(t.Context(), joinedRun(t), CompareOptions{})
	require.NoError(t, err)
	require.Contains(t, c.Notes, "e: 1 node of 1 worker took part in r while they were connected.")
	require.Equal(t, 1, c.Rows[0].Rounds, "that node_0 has done")
}
