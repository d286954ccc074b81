package store

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

func anEval(node string, round int, at float64, sums ...float64) event.Event {
	x := &event.Eval{Round: round, Set: "set", Generations: 4, Temperature: 1, FormatRate: 0.5, MeanLength: 12.5, Seconds: 2}
	for i, sum := range sums {
		x.Questions = append(x.Questions, event.EvalQuestion{Task: fmt.Sprint("task_", i), Correct: int(sum), RewardSum: sum})
	}
	return event.Event{Type: event.TypeEval, Run: testRun, Node: node, Time: at, Eval: x}
}

func readerOf(t testing.TB, s *Store) *Reader {
	t.Helper()
	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestEvaluationsReadBack(t *testing.T) {
	s := startedStore(t, Options{})
	first, second, other := anEval("node_0", 0, 104, 1, 0), anEval("node_1", 0, 105, 2.5), anEval("node_0", 20, 110, 3, 0.5)
	none := anEval("node_1", 20, 111)
	record(t, s, other, second, first, none)
	r := readerOf(t, s)
	got, err := r.Evals(t.Context(), testRun)
	require.NoError(t, err)
	none.Eval.Questions = []event.EvalQuestion{}
	var want []NodeEval
	for _, e := range []event.Event{first, second, other, none} {
		want = append(want, NodeEval{Node: e.Node, Time: e.Time, Eval: *e.Eval})
	}
	require.Equal(t, want, got)

	rounds, err := r.Evaluated(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, map[string][]int{"node_0": {0, 20}, "node_1": {0, 20}}, rounds)

	newest, err := r.NewestEvals(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]EvalTotal{
		testRun: {Run: testRun, Round: 20, Set: "set", Generations: 4, Nodes: 2, Questions: 2, Correct: 3, RewardSum: 3.5},
	}, newest)

	times, err := r.EvalTimes(t.Context(), testRun)
	require.NoError(t, err)
	seconds := first.Eval.Seconds
	require.Equal(t, []EvalTime{{0, 104 - seconds, 105}, {20, 110 - seconds, 111}}, times)

	got, err = r.Evals(t.Context(), "another")
	require.NoError(t, err)
	require.Empty(t, got)
}

// A status and a comparison show the same evaluation, even if eval_questions changed after some nodes had evaluated.
func TestEvaluationsOfTwoSetsAreNotAddedUp(t *testing.T) {
	s := startedStore(t, Options{})
	other := anEval("node_0", 20, 110, 4, 4, 4)
	other.Eval.Set, other.Eval.Generations = "another", 8
	record(t, s, other, anEval("node_1", 20, 111, 1, 0), anEval("node_2", 20, 112, 0, 2))
	r := readerOf(t, s)
	newest, err := r.NewestEvals(t.Context())
	require.NoError(t, err)
	want := EvalTotal{Run: testRun, Round: 20, Set: "set", Generations: 4, Nodes: 2, Questions: 4, Correct: 3, RewardSum: 3}
	require.Equal(t, want, newest[testRun])
	snapshot, err := r.Snapshot(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, []EvalTotal{want}, snapshot.Evals)
}

func TestQuestionsOfAnEvaluation(t *testing.T) {
	s := startedStore(t, Options{})
	other := anEval("node_2", 20, 112, 4, 4)
	other.Eval.Set = "another"
	record(t, s, anEval("node_0", 20, 110, 3, 0), anEval("node_1", 20, 111, 1, 2), other, anEval("node_0", 10, 105, 4, 4))
	r := readerOf(t, s)
	totals, err := r.EvalTotals(t.Context(), testRun)
	require.NoError(t, err)
	newest := totals[len(totals)-1]
	require.Equal(t, []any{20, "set"}, []any{newest.Round, newest.Set})
	questions, err := r.QuestionTotals(t.Context(), newest)
	require.NoError(t, err)
	require.Equal(t, []QuestionTotal{
		{"task_0", 8, 4, []NodesRight{{1, 1}, {3, 1}}}, {"task_1", 8, 2, []NodesRight{{0, 1}, {2, 1}}},
	}, questions)

	newest.Correct++
	questions, err = r.QuestionTotals(t.Context(), newest)
	require.NoError(t, err)
	require.Nil(t, questions, "they do not make up the evaluation")
}

func TestLaterEvaluationReplacesAndReplayedFillsIn(t *testing.T) {
	s := startedStore(t, Options{})
	replayed := func(e event.Event) event.Event {
		e.Replayed = true
		return e
	}
	record(t, s,
		anEval("node_0", 5, 104, 1, 1, 1),
		anEval("node_0", 5, 110, 0.5),            // repeated the round
		anEval("node_0", 5, 104, 1, 1, 1),        // repeated event
		replayed(anEval("node_0", 5, 120, 4)),    // already recorded
		replayed(anEval("node_0", 10, 103, 2)),   // not recorded yet
		anEval("node_0", 10, 103, 2),             // recorded since
		replayed(anEval("node_9", 10, 103, 0.5)), // of a node without a row
	)
	got, err := readerOf(t, s).Evals(t.Context(), testRun)
	require.NoError(t, err)
	var have []any
	for _, x := range got {
		have = append(have, []any{x.Node, x.Round, x.Time, len(x.Questions), x.Questions[0].RewardSum})
	}
	require.Equal(t, []any{
		[]any{"node_0", 5, 110.0, 1, 0.5}, []any{"node_0", 10, 103.0, 1, 2.0}, []any{"node_9", 10, 103.0, 1, 0.5},
	}, have)
	require.Zero(t, snapshot(t, s, testRun).Nodes[2].LastEvent, "a replayed event is not a sign of life")
	requireSums(t, s)
}

func TestEvaluationThatIsNotFiniteIsNamed(t *testing.T) {
	s := startedStore(t, Options{})
	bad := anEval("node_0", 5, 104, 1, math.NaN(), math.Inf(-1))
	bad.Eval.Questions[1].Correct, bad.Eval.Questions[2].Correct = 0, 0
	bad.Eval.FormatRate = math.Inf(1)
	record(t, s, bad)
	var status string
	var rate any
	var sum float64
	require.NoError(t, s.db.QueryRow(`SELECT non_finite, format_rate, reward_sum FROM evals`).Scan(&status, &rate, &sum))
	require.Equal(t, []any{"question_1=nan question_2=-inf format_rate=+inf", nil, 1.0}, []any{status, rate, sum})
	got, err := readerOf(t, s).Evals(t.Context(), testRun)
	require.NoError(t, err)
	require.True(t, math.IsNaN(got[0].FormatRate))
	require.True(t, math.IsNaN(got[0].Questions[1].RewardSum))
	require.True(t, math.IsNaN(got[0].Questions[2].RewardSum))
}

func TestRefusedEvaluations(t *testing.T) {
	s := startedStore(t, Options{})
	nobody, nothing, negative := anEval("", 1, 104, 1), anEval("node_0", 1, 104, 1), anEval("node_0", -1, 104, 1)
	nothing.Eval = nil
	for _, e := range []event.Event{nobody, nothing, negative} {
		require.Error(t, s.Record(context.Background(), e))
	}
}

// A database of an older program has no evaluations while it is only read. Opening it for writing adds them.
func TestReaderOfSchema3(t *testing.T) {
	path := olderDatabase(t, 3, fmt.Sprintf(`
INSERT INTO runs (run, experiment, state, seed, rounds, nodes, num_train_samples, num_transplant_trees, num_generations, config, plan, versions,
  started, resumed) VALUES ('%[1]s', 'e', 'done', 1, 2, 1, 4, 4, 8, '{}', '{}', '{}', 1, 1);
INSERT INTO nodes (run, node) VALUES ('%[1]s', 'node_0');`, testRun))

	r, err := OpenReader(t.Context(), path)
	require.NoError(t, err)
	defer r.Close()
	ask := func() (evals []NodeEval, rounds map[string][]int, newest map[string]EvalTotal) {
		evals, err := r.Evals(t.Context(), testRun)
		require.NoError(t, err)
		rounds, err = r.Evaluated(t.Context(), testRun)
		require.NoError(t, err)
		newest, err = r.NewestEvals(t.Context())
		require.NoError(t, err)
		return evals, rounds, newest
	}
	evals, rounds, newest := ask()
	require.Empty(t, evals)
	require.NotNil(t, rounds)
	require.Empty(t, rounds)
	require.Empty(t, newest)
	_, err = r.Snapshot(t.Context(), testRun)
	require.NoError(t, err)
	runs, err := r.Runs(t.Context(), Filter{})
	require.NoError(t, err)
	require.Len(t, runs, 1)
	for _, metric := range event.MetricNames() {
		_, err := r.RoundBands(t.Context(), testRun, metric, 0)
		require.NoError(t, err, metric)
	}
	recorded, err := r.Recorded(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"node_0": 0}, recorded)
	members, err := r.Members(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, []Member{{Node: "node_0"}}, members)
	_, err = r.Timeline(t.Context(), testRun, 0, 1)
	require.NoError(t, err)
	_, err = r.Workers(t.Context(), testRun)
	require.NoError(t, err)
	_, err = r.WorkerRollouts(t.Context(), testRun)
	require.NoError(t, err)
	acked, err := r.Delivered(t.Context(), testRun, "anna", "a")
	require.NoError(t, err)
	require.Zero(t, acked)

	s := openStore(t, path, Options{})
	record(t, s, anEval("node_0", 2, 104, 1))
	evals, rounds, newest = ask()
	require.Len(t, evals, 1, "the reader stayed open")
	require.Equal(t, map[string][]int{"node_0": {2}}, rounds)
	require.Len(t, newest, 1)
}

func TestTheNewestEvaluationIsTheWholeSwarms(t *testing.T) {
	s := startedStore(t, Options{})
	r := readerOf(t, s)
	newest := func() (int, int) {
		require.NoError(t, s.Flush(t.Context()))
		totals, err := r.NewestEvals(t.Context())
		require.NoError(t, err)
		edges := snapshot(t, s, testRun).Evals
		require.Equal(t, totals[testRun], edges[len(edges)-1])
		return totals[testRun].Round, totals[testRun].Nodes
	}
	nodes := snapshot(t, s, testRun).Nodes
	for i, n := range nodes {
		record(t, s, anEval(n.Node, 10, float64(100+i), 1))
	}
	record(t, s, anEval(nodes[0].Node, 20, 200, 4))
	round, of := newest()
	require.Equal(t, []int{10, len(nodes)}, []int{round, of}, "one node is ready first")
	for i, n := range nodes[1:] {
		record(t, s, event.Event{Type: event.TypeGiveUp, Run: testRun, Node: n.Node, Time: float64(300 + i), Cause: event.CauseEngine, Message: "x"})
	}
	round, of = newest()
	require.Equal(t, []int{20, 1}, []int{round, of}, "the others have left the swarm")
}
