package store

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

func TestTheSplitOfARoundIsNullWhereItIsFixed(t *testing.T) {
	s := startedStore(t, Options{})
	fixed, split, alone := aRound("node_0", 0, 104, 0.25), aRound("node_0", 1, 105, 0.5), aRound("node_1", 1, 106, 0.5)
	split.Round.SplitOwn, split.Round.SplitExternal = 2, 6
	alone.Round.SplitOwn = 8 // J = 0 is also a split
	record(t, s, fixed, split, alone)
	r := readerOf(t, s)
	values, err := r.RoundValues(t.Context(), testRun, "split_external", 0)
	require.NoError(t, err)
	require.True(t, math.IsNaN(values[0].Value))
	require.Equal(t, []RoundValue{{1, "node_0", 105, 6}, {1, "node_1", 106, 0}}, values[1:])
	bands, err := r.RoundBands(t.Context(), testRun, "split_own", 1)
	require.NoError(t, err)
	require.Equal(t, []RoundBand{{Round: 1, Nodes: 2, End: 106, Mean: 5, Min: 2, Max: 8}}, bands)
}

// databaseOf returns a database of an older schema with one round of run-1, whose program ended without recording it.
func databaseOf(t *testing.T, schema int) string {
	t.Helper()
	return olderDatabase(t, schema, `
INSERT INTO runs (run, experiment, state, seed, rounds, nodes, num_train_samples, num_transplant_trees, num_generations, config, plan,
  versions, started, resumed) VALUES ('run-1', 'e', 'running', 1, 2, 1, 4, 4, 8, '{}', '{}', '{}', 5, 5);
INSERT INTO attempts (run, attempt, started, seen, state) VALUES ('run-1', 1, 5, 6, 'running');
INSERT INTO nodes (run, node, rounds_done, last_round, last_reward, cumulative_reward) VALUES ('run-1', 'node_0', 1, 0, 0.5, 0.5);
INSERT INTO rounds (run, round, node, time, reward, completions, steps, trained_own, trained_external, late, non_finite)
  VALUES ('run-1', 0, 'node_0', 6, 0.5, 32, 1, 4, 4, 0, '');`)
}

func TestMigrationKeepsADatabaseOfSchema7(t *testing.T) {
	path := databaseOf(t, 7)
	r, err := OpenReader(t.Context(), path)
	require.NoError(t, err, "it can be read as it is")
	defer r.Close()
	before := func() []RoundValue {
		values, err := r.RoundValues(t.Context(), "run-1", "split_own", 0)
		require.NoError(t, err)
		return values
	}
	require.True(t, math.IsNaN(before()[0].Value))
	columns, err := r.Columns(t.Context(), "rounds")
	require.NoError(t, err)

	s := openStore(t, path, Options{})
	again := aRound("node_0", 1, 107, 0.75)
	again.Run, again.Round.SplitOwn, again.Round.SplitExternal = "run-1", 6, 2
	record(t, s, again)
	requireIntact(t, s)
	after := before()
	require.True(t, math.IsNaN(after[0].Value))
	require.InDelta(t, 6, after[1].Value, 0, "who had it open sees what came")
	now, err := r.Columns(t.Context(), "rounds")
	require.NoError(t, err)
	require.Equal(t, []Column{{Name: "split_own", Type: "INTEGER"}, {Name: "split_external", Type: "INTEGER"}}, now[len(columns):len(columns)+2])
}

func TestEvaluationsByModelAddUpToTheRuns(t *testing.T) {
	s := startedStore(t, Options{})
	for node, model := range map[string]string{"node_0": "nano", "node_1": "micro"} {
		record(t, s, event.Event{Type: event.TypeLoaded, Run: testRun, Node: node, Time: 103, Loaded: &event.Loaded{Model: model}})
	}
	record(t, s, anEval("node_0", 0, 104, 1), anEval("node_1", 0, 105, 1), anEval("node_0", 20, 110, 3, 0.5), anEval("node_1", 20, 111, 2.5))
	r := readerOf(t, s)
	whole, err := r.NewestEvals(t.Context())
	require.NoError(t, err)
	byModel, err := r.NewestEvalsByModel(t.Context())
	require.NoError(t, err)
	require.Len(t, byModel[testRun], 2)
	nano, micro := byModel[testRun]["nano"], byModel[testRun]["micro"]
	require.Equal(t, []int{20, 1, 2}, []int{nano.Round, nano.Nodes, nano.Questions})
	require.Equal(t, whole[testRun].Correct, nano.Correct+micro.Correct)
	require.InDelta(t, 6, nano.RewardSum+micro.RewardSum, 1e-12)
}
