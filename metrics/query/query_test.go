package query_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

const (
	nodes  = 3
	rounds = 40
)

// database returns a database with the experiments base (8/0) and x (4/4), five seeds of each, and a reader of it.
func database(t testing.TB) (path string, reader *store.Reader) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "swarm.db")
	s, err := store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	for _, experiment := range []string{"base", "x"} {
		for seed := range 5 {
			recordRun(t, s, experiment, seed)
		}
	}
	require.NoError(t, s.Close())
	reader, err = store.OpenReader(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	return path, reader
}

func recordRun(t testing.TB, s *store.Store, experiment string, seed int) {
	t.Helper()
	run := store.Run{Run: fmt.Sprintf("%s-%d", experiment, seed), Experiment: experiment, Seed: int64(seed), Rounds: rounds, Started: 1000,
		NumTrainSamples: 8, NumGenerations: 8, PricePerHour: 36, PriceCurrency: "$"}
	gain := 0.01
	if experiment == "x" {
		run.NumTrainSamples, run.NumTransplantTrees, gain = 4, 4, 0.02
	}
	for n := range nodes {
		run.NodeIDs = append(run.NodeIDs, fmt.Sprint("node_", n))
	}
	require.NoError(t, s.StartRun(t.Context(), run))
	for round := range rounds {
		at := 1000 + 10*float64(round+1)
		for n, node := range run.NodeIDs {
			reward := gain*float64(round) + 0.001*float64(seed) + 0.01*float64(n)
			if round == 3 && n == 1 {
				reward = math.NaN()
			}
			send(t, s, event.Event{Type: event.TypeRound, Run: run.Run, Node: node, Time: at, Round: &event.Round{Round: round, Reward: reward,
				Tasks: []event.TaskReward{{Task: "bf", Completions: 4, RewardSum: 2}, {Task: "arc_1d", Completions: 4, RewardSum: 1}}}})
		}
		send(t, s, event.Event{Type: event.TypeDevice, Run: run.Run, Time: at,
			Device: &event.Device{UUID: "GPU-1", MemoryTotalBytes: 80e9, PowerWatts: 360}})
	}
	send(t, s, event.Event{Type: event.TypeEval, Run: run.Run, Node: "node_0", Time: 1400, Eval: &event.Eval{Round: rounds, Set: "s", Generations: 4,
		Questions: []event.EvalQuestion{{Task: "bf", Correct: 1 + seed%2, RewardSum: 1.5}, {Task: "arc_1d", RewardSum: gain * 100}}}})
	send(t, s, event.Event{Type: event.TypeRunEnded, Run: run.Run, Time: 1400, State: store.RunDone})
}

func send(t testing.TB, s *store.Store, e event.Event) {
	t.Helper()
	require.NoError(t, s.Record(t.Context(), e))
}

func TestEveryDocumentHasTheSameNumbers(t *testing.T) {
	_, reader := database(t)
	c, err := query.Compare(t.Context(), reader, query.CompareOptions{CompareOptions: stats.CompareOptions{
		Measure: stats.MeasureReward, Target: 0.3, Window: 10, Tasks: true}})
	require.NoError(t, err)
	require.Equal(t, []string{"base", stats.BasisCumulative}, []string{c.Baseline, c.Basis})
	row := c.Rows[1]
	require.Equal(t, []any{"x", 5, 5, 3, rounds, stats.OutcomeBetter}, []any{row.Experiment, row.Runs, row.Seeds, row.Nodes, row.Rounds, row.Outcome})

	snapshot, err := reader.Snapshot(t.Context(), "x-2")
	require.NoError(t, err)
	curve, err := query.Curve(t.Context(), reader, snapshot.Run, "reward", stats.CurveOptions{})
	require.NoError(t, err)
	require.Len(t, curve.Round, rounds)
	require.InDelta(t, 10, curve.Time[0], 0)
	sum := 0.0
	for _, n := range curve.Nodes {
		for _, v := range n.Values {
			if !math.IsNaN(v) {
				sum += v
			}
		}
	}
	require.True(t, math.IsNaN(curve.Nodes[1].Values[3]), "what was no number is none")
	require.InDelta(t, row.CumulativeReward, sum, 1e-9, "seed 2 is the mean of 0 to 4")
	require.InDelta(t, stats.NewStatus(snapshot, 1400, false).CumulativeReward, sum, 1e-9)

	evaluations, err := query.Evaluations(t.Context(), reader, snapshot.Run)
	require.NoError(t, err)
	require.InDelta(t, *row.EvalReward, evaluations.Rows[0].Reward, 1e-12)
	require.InDelta(t, 1.0/8, evaluations.Rows[0].Pass[0].Value, 1e-12)
	require.InDelta(t, (1+2+1+2+1)/8.0/5, *row.EvalPass1, 1e-12)

	tasks, err := query.Tasks(t.Context(), reader, snapshot.Run, 4)
	require.NoError(t, err)
	require.Equal(t, []int{0, 10, 20, 30}, tasks.Round)
	require.InDelta(t, tasks.Tasks[0].Reward, *c.Tasks[0].Rewards[1].Reward, 1e-12)
	require.InDelta(t, 0.25, tasks.Tasks[0].Reward, 1e-12)

	resources, err := query.Resources(t.Context(), reader, snapshot.Run, stats.NewStatus(snapshot, 1400, false))
	require.NoError(t, err)
	require.InDelta(t, 400, resources.ActiveSeconds, 0)
	require.InDeltaSlice(t, []float64{4, 390 * 360}, []float64{*resources.Cost, *resources.EnergyJoules}, 1e-9)
}

func TestTargetIsReachedWhenTheWholeWindowIs(t *testing.T) {
	_, reader := database(t)
	compare := func(target float64) stats.TargetRow {
		c, err := query.Compare(t.Context(), reader, query.CompareOptions{CompareOptions: stats.CompareOptions{Target: target, Window: 10}})
		require.NoError(t, err)
		return *c.Rows[0].Target
	}
	// base: the mean of rounds k-9 … k is 0.01 (k - 4.5) + 0.01 + 0.001 seed.
	x := compare(0.2)
	require.Equal(t, []int{5, 5}, []int{x.Reached, x.Runs})
	require.InDelta(t, 25, *x.Rounds, 0, "round 24 is the first with 0.01 * 19.5 + 0.01 + 0.002 = 0.207 for seed 2; 23 has 0.197")
	require.InDelta(t, 250, *x.ActiveSeconds, 0)
	require.InDelta(t, 2.5, *x.Cost, 1e-9)
	require.InDelta(t, 250.0/3600, *x.GPUHours, 1e-12)
	require.InDelta(t, 240*360, *x.EnergyJoules, 1e-9)
	x = compare(0.9)
	require.Zero(t, x.Reached)
	require.Nil(t, x.Rounds)
}

func TestCompareReadsSumsNotRounds(t *testing.T) {
	path, reader := database(t)
	before, err := query.Compare(t.Context(), reader, query.CompareOptions{})
	require.NoError(t, err)
	db, err := sql.Open("sqlite3", path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "DELETE FROM rounds")
	require.NoError(t, errors.Join(err, db.Close()))
	after, err := query.Compare(t.Context(), reader, query.CompareOptions{})
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// The database has two questions, one of each task: they stay, and seeds alone are drawn.
func TestCompareReadsResultsByQuestion(t *testing.T) {
	path, reader := database(t)
	o := query.CompareOptions{CompareOptions: stats.CompareOptions{Measure: stats.MeasurePass, Questions: true}}
	c, err := query.Compare(t.Context(), reader, o)
	require.NoError(t, err)
	p := c.Pairs[0]
	require.Equal(t, 2, *p.Questions)
	require.InDelta(t, *p.CILow, *p.QuestionsLow, 0.1*(*p.CIHigh-*p.CILow))
	require.InDelta(t, *p.CIHigh, *p.QuestionsHigh, 0.1*(*p.CIHigh-*p.CILow))
	db, err := sql.Open("sqlite3", path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "DELETE FROM eval_questions WHERE run = 'x-3'")
	require.NoError(t, errors.Join(err, db.Close()))
	c, err = query.Compare(t.Context(), reader, o)
	require.NoError(t, err)
	require.Nil(t, c.Pairs[0].Questions)
	require.InDelta(t, *p.Difference, *c.Pairs[0].Difference, 0)
}

func TestARunWhoseCoordinatorDiedIsNotCalledRunning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarm.db")
	s, err := store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	for _, name := range []string{"dead", "living"} {
		require.NoError(t, s.StartRun(t.Context(), store.Run{Run: name + "-1", Experiment: name, Started: 1000, NodeIDs: []string{"node_0"}}))
	}
	require.NoError(t, s.Close())
	reader, err := store.OpenReader(t.Context(), path)
	require.NoError(t, err)
	defer reader.Close()
	alive := func(s store.Snapshot) bool { return s.Run.Experiment == "living" }
	c, err := query.Compare(t.Context(), reader, query.CompareOptions{Alive: alive})
	require.NoError(t, err)
	require.Equal(t, []string{
		"No row is the baseline, so the rows are only ranked, the longest first. Try: swarm compare --baseline dead",
		"dead: no run is done; 1 unfinished run is counted (crashed).", "living: no run is done; 1 unfinished run is counted (running).",
	}, c.Notes)
}

func TestNamesThatNobodyRecorded(t *testing.T) {
	_, reader := database(t)
	for _, o := range []query.CompareOptions{
		{Names: []string{"base", "nosuch"}}, {CompareOptions: stats.CompareOptions{Baseline: "nosuch"}},
		{Names: []string{"base"}, CompareOptions: stats.CompareOptions{Baseline: "nosuch"}},
	} {
		_, err := query.Compare(t.Context(), reader, o)
		var unknown *query.UnknownError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, "nosuch", unknown.Name)
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	_, err := query.Curve(t.Context(), reader, store.Run{Run: "x-1"}, "reward; DROP TABLE runs", stats.CurveOptions{})
	require.ErrorIs(t, err, store.ErrNotFound)
	c, err := query.Compare(t.Context(), reader, query.CompareOptions{Names: []string{"x"}, CompareOptions: stats.CompareOptions{Baseline: "base"}})
	require.NoError(t, err)
	require.Equal(t, "base", c.Baseline)
}

func TestAnEmptyDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarm.db")
	s, err := store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	reader, err := store.OpenReader(t.Context(), path)
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close()) }()
	c, err := query.Compare(t.Context(), reader, query.CompareOptions{})
	require.NoError(t, err)
	require.Empty(t, c.Rows)
	curve, err := query.Curve(t.Context(), reader, store.Run{Run: "none"}, "reward", stats.CurveOptions{Points: 10})
	require.NoError(t, err)
	require.Empty(t, curve.Round)
}
