package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

func joins(worker, node string, at float64, from int) event.Event {
	return event.Event{Type: event.TypeJoin, Run: testRun, Node: node, Worker: worker, Time: at, RoundIndex: from, Message: "gpt2 on cpu"}
}

func leaves(worker, node string, at float64, cause string) event.Event {
	return event.Event{Type: event.TypeLeave, Run: testRun, Node: node, Worker: worker, Time: at, Cause: cause}
}

// theirs turns an event into one of a worker's node.
func theirs(worker string, e event.Event) event.Event {
	e.Worker = worker
	return e
}

func working(node string, at float64, s event.State, round int) event.Event {
	return event.Event{Type: event.TypeState, Run: testRun, Node: node, Time: at, State: s, RoundIndex: round}
}

func nodeOf(t *testing.T, s *Store, node string) Node {
	t.Helper()
	for _, n := range snapshot(t, s, testRun).Nodes {
		if n.Node == node {
			return n
		}
	}
	t.Fatalf("no node %s", node)
	return Node{}
}

func TestNodesOfWorkersComeAndGo(t *testing.T) {
	s := startedStore(t, Options{})
	record(t, s, joins("anna", "anna_0", 200, 7))
	n := nodeOf(t, s, "anna_0")
	require.Equal(t, Node{Node: "anna_0", State: event.StateQueued, LastRound: -1, Worker: "anna", From: 7}, withoutNaN(n))
	require.True(t, n.There())
	require.Equal(t, 7, n.Position())

	// Events of a worker's node carry that host's clock, which may be behind the coordinator's. They do not change its
	// presence.
	record(t, s, theirs("anna", working("anna_0", 205, event.StateGenerating, 7)), leaves("anna", "anna_0", 300, ""))
	n = nodeOf(t, s, "anna_0")
	require.Equal(t, event.StateAway, n.Shown())
	require.False(t, n.There())
	record(t, s, theirs("anna", working("anna_0", 290, event.StateUpdating, 8)))
	require.Equal(t, event.StateAway, nodeOf(t, s, "anna_0").Shown())
	record(t, s, joins("anna", "anna_0", 310, 7))
	require.Equal(t, event.StateUpdating, nodeOf(t, s, "anna_0").Shown())
	record(t, s, leaves("anna", "anna_0", 305, ""))
	require.True(t, nodeOf(t, s, "anna_0").There(), "what was told late changes nothing")

	record(t, s, leaves("anna", "anna_0", 320, "banned"))
	n = nodeOf(t, s, "anna_0")
	require.Equal(t, []any{AbsentLeft, event.StateStopped, "banned"}, []any{n.Absent, n.Shown(), n.Cause})
	record(t, s, theirs("anna", working("anna_0", 330, event.StateDone, 9)))
	require.Equal(t, event.StateDone, nodeOf(t, s, "anna_0").Shown(), "what it has done stays done")

	entries, err := readerOf(t, s).Timeline(t.Context(), testRun, 0, 10)
	require.NoError(t, err)
	require.Equal(t, joins("anna", "anna_0", 200, 7), entries[0].Event)
}

// withoutNaN makes a node comparable.
func withoutNaN(n Node) Node {
	n.LastReward, n.LastEvent = 0, 0
	return n
}

func TestPidsOfOtherHostsAreNotKept(t *testing.T) {
	s := startedStore(t, Options{})
	record(t, s, joins("anna", "anna_0", 200, 0),
		theirs("anna", event.Event{Type: event.TypeSpawn, Run: testRun, Node: "anna_0", Time: 201, PID: 77}),
		theirs("anna", event.Event{Type: event.TypeLoaded, Run: testRun, Node: "anna_0", Time: 202, Loaded: &event.Loaded{EnginePID: 78, Model: "gpt2"}}))
	n := nodeOf(t, s, "anna_0")
	require.Equal(t, []any{0, 0, "gpt2"}, []any{n.PID, n.EnginePID, n.Model})
}

// A restarted coordinator does not know which nodes are still working. Other hosts' nodes are away until their workers
// reconnect, and their states stay.
func TestANewAttemptWaitsForNoWorker(t *testing.T) {
	s := startedStore(t, Options{})
	record(t, s, joins("anna", "anna_0", 200, 3), theirs("anna", working("anna_0", 201, event.StateUpdating, 3)),
		joins("bob", "bob_0", 200, 3), leaves("bob", "bob_0", 201, "left"),
		event.Event{Type: event.TypeWorker, Run: testRun, Worker: "anna", Time: 200, State: event.WorkerConnected},
		event.Event{Type: event.TypeWorker, Run: testRun, Worker: "bob", Time: 201, State: event.WorkerLeft})
	again := aRun()
	again.Started = 150 // the clock was set back
	require.NoError(t, s.StartRun(t.Context(), again))
	require.Equal(t, event.StateAway, nodeOf(t, s, "anna_0").Shown())
	require.Equal(t, event.StateUpdating, nodeOf(t, s, "anna_0").State)
	require.Equal(t, AbsentLeft, nodeOf(t, s, "bob_0").Absent)
	require.Equal(t, event.StateQueued, nodeOf(t, s, "node_0").State)
	workers, err := readerOf(t, s).Workers(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, []event.State{event.WorkerLeft, event.WorkerAway}, []event.State{workers[0].State, workers[1].State})
	record(t, s, joins("anna", "anna_0", 151, 3))
	require.True(t, nodeOf(t, s, "anna_0").There())
}

func TestRecordedCountsFromTheNodesFirstRound(t *testing.T) {
	s := startedStore(t, Options{})
	record(t, s, joins("anna", "anna_0", 200, 5), joins("bob", "bob_0", 200, 5))
	for _, round := range []int{5, 6, 8} {
		record(t, s, theirs("anna", aRound("anna_0", round, float64(210+round), 1)))
	}
	record(t, s, aRound("node_0", 0, 210, 1), aRound("node_0", 1, 211, 1))
	recorded, err := readerOf(t, s).Recorded(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"anna_0": 7, "bob_0": 5, "node_0": 2, "node_1": 0}, recorded)
	members, err := readerOf(t, s).Members(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, []Member{{"bob_0", "bob", 5}, {"anna_0", "anna", 5}, {"node_0", "", 0}, {"node_1", "", 0}}, members)
}

func TestRoundsDoneWaitsForThoseWhoAreThere(t *testing.T) {
	local := func(round int) Node { return Node{Node: "node_0", LastRound: round - 1} }
	theirs := func(round, from int, absent string, state event.State) Node {
		return Node{Node: "a", Worker: "anna", LastRound: round - 1, From: from, Absent: absent, State: state}
	}
	for _, c := range []struct {
		name  string
		nodes []Node
		want  int
	}{
		{"none", nil, 0},
		{"local alone", []Node{local(3), local(5)}, 3},
		{"a late joiner before its first round", []Node{local(5), theirs(0, 7, "", event.StateLoading)}, 5},
		{"a late joiner that holds the others up", []Node{local(9), theirs(0, 7, "", event.StateLoading)}, 7},
		{"away", []Node{local(9), theirs(8, 7, AbsentAway, event.StateUpdating)}, 9},
		{"left", []Node{local(9), theirs(8, 7, AbsentLeft, event.StateStopped)}, 9},
		{"stopped in order", []Node{local(9), theirs(8, 7, "", event.StateStopped)}, 9},
		{"a stopped run", []Node{{State: event.StateStopped, LastRound: 3}, {State: event.StateStopped, LastRound: 4}}, 4},
		{"nobody left", []Node{{State: event.StateGivenUp, LastRound: 3}, theirs(8, 0, AbsentAway, "")}, 8},
	} {
		require.Equal(t, c.want, RoundsDone(c.nodes), c.name)
	}
}

func TestSaveWorkerKeepsWhenAStateBegan(t *testing.T) {
	s := startedStore(t, Options{})
	r := readerOf(t, s)
	one := func() Worker {
		workers, err := r.Workers(t.Context(), testRun)
		require.NoError(t, err)
		require.Len(t, workers, 1)
		return workers[0]
	}
	record(t, s, event.Event{Type: event.TypeWorker, Run: testRun, Worker: "anna", Time: 200, State: event.WorkerConnected})
	w := Worker{Worker: "anna", Host: "h", Device: "cpu", Version: "1", LastSeen: 210, Nodes: 2, Offered: 5, Refused: 1, Bytes: 9, Reason: "rate"}
	require.NoError(t, s.SaveWorker(t.Context(), testRun, w))
	w.State, w.StateTime, w.FirstSeen = event.WorkerConnected, 200, 200
	require.Equal(t, w, one())
	w.State, w.StateTime, w.Offered, w.LastSeen = event.WorkerAway, 0, 7, 205
	require.NoError(t, s.SaveWorker(t.Context(), testRun, w))
	got := one()
	require.Greater(t, got.StateTime, 1e9, "now")
	require.Equal(t, 210.0, got.LastSeen)
	require.EqualValues(t, 7, got.Offered)
	require.Error(t, s.SaveWorker(t.Context(), testRun, Worker{}))
	require.Error(t, s.SaveWorker(t.Context(), "unknown", w))
}

// Equal reports of two workers at the same time are two rows.
func TestWorkersOfOneInstantAreTold(t *testing.T) {
	s := startedStore(t, Options{})
	for _, worker := range []string{"anna", "bob", "anna"} {
		record(t, s, event.Event{Type: event.TypeWorker, Run: testRun, Worker: worker, Time: 200, State: event.WorkerAway, Message: "silent"})
	}
	entries, err := readerOf(t, s).Timeline(t.Context(), testRun, 0, 10)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

func TestNodesThatOnlyGenerateHaveNoTraining(t *testing.T) {
	s := startedStore(t, Options{})
	e := aRound("node_0", 0, 200, 0.5)
	e.Round.GenerateOnly = true
	e.Round.TrainingReward, e.Round.Loss = 0.7, 0.1
	record(t, s, e)
	n := nodeOf(t, s, "node_0")
	require.True(t, n.GenerateOnly)
	require.Equal(t, 0.5, n.CumulativeReward)
	record(t, s, aRound("node_1", 0, 200, 0.25))
	for metric, nodes := range map[string]int{"training_reward": 1, "loss": 1, "reward": 2, "generate_time": 2} {
		values, err := readerOf(t, s).RoundValues(t.Context(), testRun, metric, 0)
		require.NoError(t, err)
		known := 0
		for _, v := range values {
			if v.Value == v.Value {
				known++
			}
		}
		require.Equal(t, nodes, known, metric)
	}
}

// Only other nodes' judgment of a worker's rollouts counts, not that of its own nodes.
func TestWorkerRolloutsAreJudgedByOthers(t *testing.T) {
	s := startedStore(t, Options{})
	record(t, s, joins("anna", "anna_0", 190, 0), joins("anna", "anna_1", 190, 0), joins("bob", "bob_0", 190, 0))
	judge := func(worker, node string, peers ...event.Peer) {
		e := theirs(worker, aRound(node, 0, 200, 0.5))
		e.Round.Peers = peers
		record(t, s, e)
	}
	judge("", "node_0", event.Peer{Node: "anna_0", Available: 4, Used: 1}, event.Peer{Node: "bob_0", Rejected: 4, Reason: "not a question of its stream"},
		event.Peer{Node: "node_1", Available: 4})
	judge("anna", "anna_0", event.Peer{Node: "anna_1", Available: 100, Used: 100}, event.Peer{Node: "bob_0", Available: 1, Rejected: 3})
	judge("bob", "bob_0", event.Peer{Node: "anna_1", Available: 2, Rejected: 2, Filtered: 1, Used: 1})
	got, err := readerOf(t, s).WorkerRollouts(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, []WorkerRollouts{{"bob", 1, 7, 0, 0}, {"anna", 6, 2, 1, 2}}, got)
	var reason string
	require.NoError(t, s.db.QueryRow(`SELECT reason FROM peers WHERE node = 'node_0' AND peer = 'bob_0'`).Scan(&reason))
	require.Equal(t, "not a question of its stream", reason)
}

// If nodes do not wait for each other, a snapshot has the newest rounds of each node and the last rounds that all
// finished.
func TestRecentRewardsOfNodesFarApart(t *testing.T) {
	s := startedStore(t, Options{})
	run := aRun()
	run.NodeIDs = []string{"node_0", "node_1", "node_2"}
	require.NoError(t, s.StartRun(t.Context(), run))
	for node, rounds := range []int{500, 200, 100} {
		for round := range rounds {
			require.NoError(t, s.Record(t.Context(), aRound(fmt.Sprint("node_", node), round, float64(200+round), 0.5)))
		}
	}
	require.NoError(t, s.Flush(t.Context()))
	got := map[string][]int{}
	last := -1
	for _, r := range snapshot(t, s, testRun).Recent {
		require.GreaterOrEqual(t, r.Round, last, "by round")
		last = r.Round
		got[r.Node] = append(got[r.Node], r.Round)
	}
	span := func(from, to int) (rounds []int) {
		for round := from; round < to; round++ {
			rounds = append(rounds, round)
		}
		return rounds
	}
	require.Equal(t, span(40, 100), got["node_2"])
	require.Equal(t, append(span(40, 100), span(190, 200)...), got["node_1"])
	require.Equal(t, append(span(40, 100), span(440, 500)...), got["node_0"])
}

func TestNewestEvalDoesNotWaitForTheAbsent(t *testing.T) {
	s := startedStore(t, Options{})
	eval := func(node string, round int) event.Event {
		return event.Event{Type: event.TypeEval, Run: testRun, Node: node, Time: float64(1000 + round),
			Eval: &event.Eval{Round: round, Set: "s", Generations: 1, Questions: []event.EvalQuestion{{Task: "t", Correct: 1, RewardSum: 1}}}}
	}
	newest := func() (int, int) {
		evals, err := readerOf(t, s).NewestEvals(t.Context())
		require.NoError(t, err)
		return evals[testRun].Round, evals[testRun].Nodes
	}
	record(t, s, eval("node_0", 0), eval("node_1", 0), eval("node_0", 10), eval("node_1", 10))
	record(t, s, joins("anna", "anna_0", 200, 15))
	round, nodes := newest()
	require.Equal(t, []int{10, 2}, []int{round, nodes}, "it came later")
	record(t, s, eval("node_0", 20), eval("node_1", 20))
	round, _ = newest()
	require.Equal(t, 10, round, "it is there and hasn't evaluated round 20 yet")
	record(t, s, leaves("anna", "anna_0", 201, ""))
	round, _ = newest()
	require.Equal(t, 20, round, "nobody waits for it")
	record(t, s, joins("anna", "anna_0", 202, 15), theirs("anna", eval("anna_0", 20)))
	round, nodes = newest()
	require.Equal(t, []int{20, 3}, []int{round, nodes})
	generates := aRound("anna_0", 21, 203, 0.5)
	generates.Round.GenerateOnly = true
	record(t, s, theirs("anna", generates), eval("node_0", 30), eval("node_1", 30))
	round, _ = newest()
	require.Equal(t, 30, round, "what never trains is not waited for")
}

// A teacher is evaluated before its first round. Its result is recorded, and no mean counts it.
func TestEvaluationsOfNodesThatOnlyGenerateDoNotCount(t *testing.T) {
	s := startedStore(t, Options{})
	eval := func(node string, round, correct int) event.Event {
		return event.Event{Type: event.TypeEval, Run: testRun, Node: node, Time: float64(1000 + round),
			Eval: &event.Eval{Round: round, Set: "s", Generations: 1, Questions: []event.EvalQuestion{{Task: "t", Correct: correct, RewardSum: float64(correct)}}}}
	}
	taught := aRound("node_0", 0, 1001, 0.9)
	taught.Round.GenerateOnly = true
	record(t, s, eval("node_0", 0, 1), eval("node_1", 0, 0), taught, aRound("node_1", 0, 1001, 0.1), eval("node_1", 1, 1))
	r := readerOf(t, s)

	totals, err := r.EvalTotals(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, []EvalTotal{{Run: testRun, Set: "s", Generations: 1, Nodes: 1, Questions: 1},
		{Run: testRun, Round: 1, Set: "s", Generations: 1, Nodes: 1, Questions: 1, Correct: 1, RewardSum: 1}}, totals)
	snapshot, err := r.Snapshot(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, totals, snapshot.Evals)
	newest, err := r.NewestEvals(t.Context())
	require.NoError(t, err)
	require.Equal(t, totals[1], newest[testRun])
	byModel, err := r.NewestEvalsByModel(t.Context())
	require.NoError(t, err)
	require.Equal(t, totals[1], byModel[testRun][nodeOf(t, s, "node_1").Model])
	evals, err := r.Evals(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, false}, []bool{evals[0].GenerateOnly, evals[1].GenerateOnly, evals[2].GenerateOnly})
	runs, err := r.Runs(t.Context(), Filter{})
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{runs[0].NodesSeen, runs[0].Teachers})
	require.Equal(t, 2, runs[0].NodeRounds)
	require.Equal(t, 1, runs[0].Trained().NodeRounds)
	require.InDelta(t, 0.1, runs[0].Trained().Reward, 1e-12)
	require.InDelta(t, 1, runs[0].CumulativeReward, 1e-12)
	sums, err := r.RewardSums(t.Context(), testRun, []int{1})
	require.NoError(t, err)
	require.Equal(t, map[int]RewardSum{1: {1, 0.1}}, sums)
	questions, err := r.QuestionTotals(t.Context(), totals[0])
	require.NoError(t, err)
	require.Equal(t, []QuestionTotal{{"t", 1, 0, []NodesRight{{0, 1}}}}, questions)
}
