package stats

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// The run has a node of the coordinator, a late joiner, one that is away, and one that has left.
func TestStatusOfASharedRun(t *testing.T) {
	s := store.Snapshot{
		Run: store.Run{Run: "r", Experiment: "e", State: store.RunRunning, Rounds: 20, Nodes: 1, Started: 100},
		Nodes: []store.Node{
			{Node: "node_0", State: event.StateUpdating, LastRound: 9, CumulativeReward: 5, RSSBytes: 100, Model: "gpt2", Device: "cuda:0"},
			{Node: "anna_0", Worker: "anna", State: event.StateLoading, LastRound: -1, From: 12, RSSBytes: 1000, Model: "qwen", Device: "cpu"},
			{Node: "bob_0", Worker: "bob", State: event.StateUpdating, LastRound: 4, From: 3, Absent: store.AbsentAway, CumulativeReward: 1, LastReward: 0.5},
			{Node: "eve_0", Worker: "eve", State: event.StateUpdating, LastRound: 3, From: 3, Absent: store.AbsentLeft, Cause: "banned", CumulativeReward: 0.25},
		},
		Workers: []store.Worker{{Worker: "anna", State: event.WorkerConnected}, {Worker: "bob", State: event.WorkerAway}, {Worker: "eve", State: event.WorkerBanned}},
	}
	for round := range 10 {
		s.Recent = append(s.Recent, store.RoundReward{Round: round, Node: "node_0", Time: 100 + 10*float64(round+1), Reward: 0.5})
	}
	got := NewStatus(s, 205, true)
	require.Equal(t, 10, got.Round, "nobody waits for those who are away or gone")
	require.Equal(t, 6.25, got.CumulativeReward, "what they did counts")
	require.Equal(t, []int{2, 4, 3, 1}, []int{got.NodesAlive, got.NodesPlanned, got.Workers, got.WorkersConnected})
	require.EqualValues(t, 100, got.MemoryBytes, "of the coordinator's host")
	require.Equal(t, []any{"gpt2", "cuda:0"}, []any{got.Model, got.Device})
	require.InDelta(t, 95, *got.ETASeconds, 1e-9, "10 rounds of 10 s, less the 5 s since the last")
	var states []string
	for _, n := range got.Nodes {
		states = append(states, n.State)
	}
	require.Equal(t, []string{"updating", "loading", "away", "stopped"}, states)
	require.Equal(t, []any{12, 12, "anna"}, []any{got.Nodes[1].Round, got.Nodes[1].From, got.Nodes[1].Worker})

	s.Run.State = store.RunDone
	require.Zero(t, NewStatus(s, 205, true).WorkersConnected)
}

func TestValueThatIsNotKnownIsNull(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		text, err := json.Marshal(Value(v))
		require.NoError(t, err)
		require.Equal(t, "null", string(text))
	}
	var v Value
	require.NoError(t, json.Unmarshal([]byte("0.1"), &v))
	require.InDelta(t, 0.1, float64(v), 0)
	require.NoError(t, json.Unmarshal([]byte("null"), &v))
	require.True(t, math.IsNaN(float64(v)))
	require.Error(t, json.Unmarshal([]byte(`"x"`), &v))
}
