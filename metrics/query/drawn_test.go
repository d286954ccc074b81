package query_test

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Two nodes answer two questions of bf and one of arc_1d, four completions each. In "apart" node_0 draws bf and node_1
// arc_1d, in "all" both draw both.
func TestHeldOutAnswersByTaskAndByWhoDrawsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarm.db")
	s, err := store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	record := func(experiment, tasks string, right map[string][3]int) {
		config, err := json.Marshal(map[string]any{"model": "nano", "nodes": map[string]string{"tasks": tasks}})
		require.NoError(t, err)
		run := store.Run{Run: experiment + "-1", Experiment: experiment, Seed: 42, Rounds: 1, Started: 1000, NumTrainSamples: 8, NumGenerations: 8,
			NodeIDs: []string{"node_0", "node_1"}, Config: config}
		require.NoError(t, s.StartRun(t.Context(), run))
		for node, correct := range right {
			send(t, s, event.Event{Type: event.TypeRound, Run: run.Run, Node: node, Time: 1010, Round: &event.Round{Round: 0, Reward: 0.5,
				Tasks: []event.TaskReward{{Task: "bf", Completions: 4, RewardSum: 2}, {Task: "arc_1d", Completions: 4, RewardSum: 1}}}})
			e := &event.Eval{Round: 1, Set: "s", Generations: 4}
			for i, task := range []string{"bf", "bf", "arc_1d"} {
				e.Questions = append(e.Questions, event.EvalQuestion{Task: task, Correct: correct[i]})
			}
			send(t, s, event.Event{Type: event.TypeEval, Run: run.Run, Node: node, Time: 1020, Eval: e})
		}
		send(t, s, event.Event{Type: event.TypeRunEnded, Run: run.Run, Time: 1030, State: store.RunDone})
	}
	record("all", "", map[string][3]int{"node_0": {4, 2, 1}, "node_1": {0, 2, 3}})
	record("apart", "bf,arc_1d", map[string][3]int{"node_0": {4, 3, 1}, "node_1": {1, 0, 2}})
	require.NoError(t, s.Close())
	reader, err := store.OpenReader(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	compare := func(baseline string) stats.Comparison {
		c, err := query.Compare(t.Context(), reader, query.CompareOptions{Names: []string{"all", "apart"}, CompareOptions: stats.CompareOptions{
			Baseline: baseline, Measure: stats.MeasurePass, Tasks: true, Questions: true}})
		require.NoError(t, err)
		return c
	}
	c := compare("all")
	pass := map[string]float64{}
	for _, task := range c.Tasks {
		for _, cell := range task.Rewards {
			require.Nil(t, cell.Improvement, "they draw different questions")
			pass[cell.Experiment+" "+task.Task] = *cell.Pass
		}
	}
	require.Equal(t, map[string]float64{"all bf": 8.0 / 16, "all arc_1d": 4.0 / 8, "apart bf": 8.0 / 16, "apart arc_1d": 3.0 / 8}, pass)
	number := func(v float64) *float64 { return &v }
	require.Equal(t, []stats.DrawnPass{{Experiment: "all", Own: number(12.0 / 24)},
		{Experiment: "apart", Own: number(9.0 / 12), Others: number(2.0 / 12)}}, c.Drawn)

	other, err := sql.Open("sqlite3", path)
	require.NoError(t, err)
	_, err = other.ExecContext(t.Context(), "DELETE FROM eval_questions WHERE run = 'apart-1' AND node = 'node_0' AND task = 'bf'")
	require.NoError(t, err)
	require.NoError(t, other.Close())
	c = compare("all")
	require.Nil(t, c.Drawn, "incomplete answers count nowhere")
	for _, task := range c.Tasks {
		require.NotNil(t, task.Rewards[0].Pass)
		require.Nil(t, task.Rewards[1].Pass)
	}
}
