package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A database of the schema before commands shows its runs without a command. A new attempt of such a run has one.
func TestACommandIsOfTheNewestAttempt(t *testing.T) {
	path := olderDatabase(t, schemaCommands-1, `
INSERT INTO runs (run, experiment, state, seed, rounds, nodes, num_train_samples, num_transplant_trees, num_generations, config, plan, versions,
  started, resumed) VALUES ('old-1', 'old', 'stopped', 1, 1, 1, 1, 1, 1, '{}', '{}', '{}', 1, 1);
INSERT INTO attempts (run, attempt, started, seen, ended, state) VALUES ('old-1', 1, 1, 2, 2, 'stopped')`)
	before, err := OpenReader(t.Context(), path)
	require.NoError(t, err)
	s, err := before.Snapshot(t.Context(), "old-1")
	require.NoError(t, err)
	require.Nil(t, s.Command)
	require.NoError(t, before.Close())

	want := Command{Folder: "/home/anna/my work", Arguments: []string{"up", "--on-complete", "***"}, Environment: []string{"SEED=7"}}
	opened := openStore(t, path, Options{})
	run := Run{Run: "old-1", Experiment: "old", Rounds: 1, Started: 3, Command: &want}
	require.NoError(t, opened.StartRun(t.Context(), run))
	require.Equal(t, &want, snapshot(t, opened, "old-1").Command)
	run.Started, run.Command = 4, nil
	require.NoError(t, opened.StartRun(t.Context(), run))
	require.Nil(t, snapshot(t, opened, "old-1").Command, "nobody knows what began this attempt")
	_, err = opened.db.Exec("DELETE FROM runs")
	require.NoError(t, err)
	var left int
	require.NoError(t, opened.db.QueryRow("SELECT count(*) FROM commands").Scan(&left))
	require.Zero(t, left)
}
