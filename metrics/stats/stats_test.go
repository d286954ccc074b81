package stats

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

var nan = math.NaN()

func TestSwarmRounds(t *testing.T) {
	rows := []store.RoundReward{
		{Round: 1, Node: "node_0", Time: 20, Reward: 0.5},
		{Round: 0, Node: "node_10", Time: 12, Reward: nan},
		{Round: 0, Node: "node_0", Time: 10, Reward: 0.25},
		{Round: 0, Node: "node_2", Time: 11, Reward: 0.75},
		{Round: 2, Node: "node_10", Time: 30, Reward: nan},
	}
	got := SwarmRounds(rows)
	require.Equal(t, []SwarmRound{
		{Round: 0, Nodes: 3, Reward: 0.5, Min: 0.25, Max: 0.75, FirstEnd: 10, End: 12},
		{Round: 1, Nodes: 1, Reward: 0.5, Min: 0.5, Max: 0.5, FirstEnd: 20, End: 20},
	}, got[:2])
	require.True(t, math.IsNaN(got[2].Reward))
	require.Equal(t, []NodeReward{{"node_0", 2, 0.75}, {"node_2", 1, 0.75}, {"node_10", 2, 0}}, PerNode(rows))
}

// ending returns rounds whose nodes all ended at these times.
func ending(ends ...float64) []SwarmRound {
	rounds := make([]SwarmRound, len(ends))
	for i, end := range ends {
		rounds[i] = SwarmRound{Round: i, FirstEnd: end, End: end}
	}
	return rounds
}

func TestETA(t *testing.T) {
	require.True(t, math.IsNaN(ETA(Pace(nil, nil), 3, 0)))
	require.True(t, math.IsNaN(ETA(Pace(ending(10), nil), 3, 0)))
	require.InDelta(t, 0, ETA(nan, 0, 0), 0)
	require.InDelta(t, 30, ETA(10, 3, 0), 0)
	require.InDelta(t, 26, ETA(10, 3, 4), 0)
	require.InDelta(t, 20, ETA(10, 3, 480), 0, "a stall eats at most one round")
	require.InDelta(t, 30, ETA(10, 3, -3600), 0, "a clock set back takes nothing off")
	slowStart := []float64{0, 1000}
	for i := range PaceWindow {
		slowStart = append(slowStart, 1000+2*float64(i+1))
	}
	require.InDelta(t, 2, Pace(ending(slowStart...), nil), 0, "the window forgets")
}

func aSnapshot() store.Snapshot {
	s := store.Snapshot{
		Run: store.Run{Run: "r", Experiment: "e", State: store.RunRunning, Rounds: 10, Nodes: 3, Started: 100, Resumed: 100, Model: "gpt2", PID: 9},
		Nodes: []store.Node{
			{Node: "node_0", State: event.StateGenerating, PID: 1, LastRound: 2, LastReward: 0.5, CumulativeReward: 1, RSSBytes: 5, PeakRSSBytes: 6},
			{Node: "node_1", State: event.StateBarrier, PID: 2, LastRound: 1, LastReward: nan, CumulativeReward: 0.5, Restarts: 1,
				RSSBytes: 5, PeakRSSBytes: 6, DeviceBytes: 50, DevicePeakBytes: 60},
			{Node: "node_2", State: event.StateGivenUp, LastRound: -1, LastReward: nan, Cause: "model"},
		},
	}
	for round := range 3 {
		s.Recent = append(s.Recent, store.RoundReward{Round: round, Node: "node_0", Time: 110 + 10*float64(round), Reward: 0.25})
		if round < 2 {
			s.Recent = append(s.Recent, store.RoundReward{Round: round, Node: "node_1", Time: 111 + 10*float64(round), Reward: 0.75})
		}
	}
	return s
}

func statesOf(s Status) (states []string) {
	for _, n := range s.Nodes {
		states = append(states, n.State)
	}
	return states
}

func TestStatus(t *testing.T) {
	got := NewStatus(aSnapshot(), 123, true)
	require.Equal(t, 2, got.Round, "a node that gave up holds nothing back")
	require.InDelta(t, 1.5, got.CumulativeReward, 0)
	require.InDelta(t, 78, *got.ETASeconds, 0, "8 rounds of 10 s, 2 s of them over")
	require.InDelta(t, 10, *got.SecondsPerRound, 0)
	require.InDelta(t, 0.5, *got.Reward, 0)
	require.Equal(t, []float64{0.5, 0.5}, got.RecentRewards)
	require.Equal(t, []any{2, 3, 1, int64(55)}, []any{got.NodesAlive, got.NodesPlanned, got.Restarts, got.MemoryBytes})
	require.Nil(t, got.Nodes[1].Reward)
	require.Equal(t, []int64{50, 60, 5}, []int64{got.Nodes[1].MemoryBytes, got.Nodes[1].PeakMemoryBytes, got.Nodes[1].RSSBytes})

	require.Equal(t, []any{int64(10), "rss", int64(5), int64(6), "rss"},
		[]any{got.HostBytes, got.HostKind, got.Nodes[0].HostBytes, got.Nodes[0].PeakHostBytes, got.Nodes[0].HostKind})

	shared := aSnapshot()
	shared.Nodes[0].PSSBytes, shared.Nodes[0].PeakPSSBytes = 2, 3
	got = NewStatus(shared, 123, true)
	require.Equal(t, []any{int64(2), int64(3), "pss", int64(2), int64(3), int64(5), int64(6)}, []any{got.Nodes[0].HostBytes, got.Nodes[0].PeakHostBytes,
		got.Nodes[0].HostKind, got.Nodes[0].MemoryBytes, got.Nodes[0].PeakMemoryBytes, got.Nodes[0].RSSBytes, got.Nodes[0].PeakRSSBytes})
	require.Equal(t, []any{int64(7), "rss"}, []any{got.HostBytes, got.HostKind}, "of one node nobody knows its share")
	shared.Nodes[1].PSSBytes, shared.Nodes[1].PeakPSSBytes = 1, 2
	got = NewStatus(shared, 123, true)
	require.Equal(t, []any{int64(3), "pss", int64(52)}, []any{got.HostBytes, got.HostKind, got.MemoryBytes})
	shared.Nodes[0].State = event.StateStopped
	got = NewStatus(shared, 123, true)
	require.Equal(t, []any{int64(0), int64(3), "pss"}, []any{got.Nodes[0].HostBytes, got.Nodes[0].PeakHostBytes, got.Nodes[0].HostKind})

	failed := aSnapshot()
	failed.Nodes[1].State = event.StateFailed
	require.Equal(t, int64(5), NewStatus(failed, 123, true).MemoryBytes, "a dead process uses none")

	crashed := NewStatus(aSnapshot(), 5000, false)
	require.Equal(t, StateCrashed, crashed.State)
	require.Nil(t, crashed.ETASeconds)
	require.Zero(t, crashed.Nodes[0].PID)
	require.Zero(t, crashed.MemoryBytes, "its nodes died with it")
	require.Equal(t, []string{StateCrashed, StateCrashed, "given_up"}, statesOf(crashed), "nobody generates any more")
	require.Empty(t, crashed.Message)
	over := aSnapshot()
	over.Run.State, over.Nodes[1].Worker = store.RunFailed, "anna"
	require.Equal(t, []string{"stopped", "away", "given_up"}, statesOf(NewStatus(over, 5000, false)), "anna's host may train on")
	over.Run.State = store.RunDone
	require.Equal(t, "done", NewStatus(over, 5000, false).Nodes[0].State)
	resumed := aSnapshot()
	resumed.Nodes[1].State = event.StateQueued
	require.Equal(t, int64(5), NewStatus(resumed, 123, true).MemoryBytes, "what it held in the attempt before")

	none := NewStatus(store.Snapshot{Run: store.Run{State: store.RunRunning, Started: 1}}, 2, true)
	text, err := json.Marshal(none)
	require.NoError(t, err)
	require.Contains(t, string(text), `"nodes":[]`)
	require.Contains(t, string(text), `"eta_seconds":0`, "no rounds are planned")

	allGone := aSnapshot()
	for i := range allGone.Nodes {
		allGone.Nodes[i].State = event.StateGivenUp
	}
	require.Equal(t, 3, NewStatus(allGone, 123, true).Round)
}

// TestDocumentKeys pins the names that scripts depend on.
func TestDocumentKeys(t *testing.T) {
	keys := func(v any) map[string]any {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(text, &m))
		return m
	}
	status := keys(NewStatus(aSnapshot(), 123, true))
	for _, k := range []string{"experiment", "run", "state", "round", "rounds", "cumulative_reward", "eta_seconds", "nodes"} {
		require.Contains(t, status, k)
	}
	for _, k := range []string{"id", "state", "round", "reward", "cumulative_reward", "memory_bytes", "peak_memory_bytes", "restarts", "pid"} {
		require.Contains(t, status["nodes"].([]any)[0], k)
	}
	c, err := compared([]store.Totals{totals("base", 8, 0, 1, 1)}, "")
	require.NoError(t, err)
	row := keys(c)["rows"].([]any)[0]
	for _, k := range []string{"experiment", "config", "runs", "nodes", "rounds", "cumulative_reward", "improvement", "ci_low", "ci_high",
		"p_value", "verdict", "eval_reward", "paper_improvement", "p_value_holm", "permutation_p_value", "decided_by", "iqm", "iqm_ci_low", "iqm_ci_high",
		"probability_ci_low", "probability_ci_high"} {
		require.Contains(t, row, k)
	}
	pair := keys(Pair{})
	for _, k := range []string{"p_value", "p_value_holm", "permutation_p_value", "decided_by", "probability_ci_low", "probability_ci_high"} {
		require.Contains(t, pair, k)
	}
	summary := keys(NewSummary(NewStatus(aSnapshot(), 123, true), nil))
	require.Contains(t, summary, "cumulative_reward")
	require.Nil(t, summary["first_reward"])
}

func TestSummary(t *testing.T) {
	var rows []store.RoundReward
	for i := range 12 {
		rows = append(rows, store.RoundReward{Round: i, Node: "node_0", Reward: float64(i)})
	}
	s := NewSummary(Status{}, rows)
	require.Equal(t, []any{5, 2.0, 9.0}, []any{s.EdgeRounds, *s.FirstReward, *s.LastReward})
	s = NewSummary(Status{}, rows[:3])
	require.Equal(t, []any{1, 0.0, 2.0}, []any{s.EdgeRounds, *s.FirstReward, *s.LastReward})
}

func compared(runs []store.Totals, baseline string) (Comparison, error) {
	return Compare(Runs{Totals: runs}, CompareOptions{Baseline: baseline})
}

func totals(experiment string, own, external int, seed int64, reward float64) store.Totals {
	return store.Totals{
		Run:       store.Run{Experiment: experiment, State: store.RunDone, Seed: seed, NumTrainSamples: own, NumTransplantTrees: external},
		NodesSeen: 8, NodeRounds: 80, RoundsDone: 10, CumulativeReward: reward,
	}
}

func TestCompare(t *testing.T) {
	c, err := compared([]store.Totals{totals("sapo", 4, 4, 1, 16), totals("base", 8, 0, 1, 8)}, "")
	require.NoError(t, err)
	require.Equal(t, []string{"base", BasisCumulative}, []string{c.Baseline, c.Basis})
	row := c.Rows[0]
	require.Equal(t, []any{"sapo", "4/4", 1, 8, 10, 16.0}, []any{row.Experiment, row.Config, row.Runs, row.Nodes, row.Rounds, row.CumulativeReward})
	require.InDelta(t, 1, *row.Improvement, 1e-12)
	require.InDelta(t, 0.946, *row.PaperImprovement, 0.001)
	require.InDelta(t, 0.2, *row.RewardPerNodeRound, 1e-12)
	require.Nil(t, row.CILow)
	require.Nil(t, row.PValue)
	require.Equal(t, []any{ReasonFewSeeds, 3}, []any{c.Pairs[0].Reason.Kind, *row.MoreSeeds})
	require.Equal(t, OutcomeBaseline, c.Rows[1].Outcome)
	require.Nil(t, c.Rows[1].PaperImprovement)
	require.InDelta(t, 561.79, *c.Rows[1].PaperReward, 0)

	_, err = compared(nil, "none")
	require.ErrorIs(t, err, store.ErrNotFound)
	c, err = compared(nil, "")
	require.NoError(t, err)
	require.Empty(t, c.Rows)
}

func TestCompareOfUnequalRuns(t *testing.T) {
	half := totals("sapo", 4, 4, 1, 8)
	half.NodeRounds, half.RoundsDone, half.State = 40, 5, store.RunStopped
	base := totals("base", 8, 0, 1, 12)
	base.Run.Run = "base-1"
	sums := map[string]map[int]store.RewardSum{"base-1": {5: {NodeRounds: 40, Reward: 4}}}
	c, err := Compare(Runs{Totals: []store.Totals{base, half}, Sums: sums}, CompareOptions{})
	require.NoError(t, err)
	require.Equal(t, BasisCumulative, c.Basis)
	require.InDelta(t, 1, *c.Rows[1].Improvement, 1e-12, "0.2 per node and round over 0.1 in the same five rounds")
	require.Equal(t, 1, c.Rows[1].Unfinished)

	whole := totals("sapo", 4, 4, 1, 24)
	c, err = compared([]store.Totals{totals("base", 8, 0, 1, 8), half, whole}, "")
	require.NoError(t, err)
	require.Equal(t, []any{1, 0, BasisCumulative}, []any{c.Rows[1].Runs, c.Rows[1].Unfinished, c.Basis}, "done runs count alone")
	require.InDelta(t, 2, *c.Rows[1].Improvement, 1e-12)

	started := totals("new", 2, 6, 1, 0)
	started.NodeRounds, started.State = 0, store.RunRunning
	c, err = compared([]store.Totals{totals("base", 8, 0, 1, 8), started}, "")
	require.NoError(t, err)
	require.Nil(t, c.Rows[1].Improvement)
	require.Equal(t, ReasonNoRounds, c.Pairs[0].Reason.Kind)
}
