package rlswarm

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// FuzzImport puts untrusted bytes into the files of an otherwise valid experiment. Reading always ends with a report.
// The result is recorded in the database, and recording it a second time changes nothing.
func FuzzImport(f *testing.F) {
	f.Add([]byte("training.num_generations: 8\n"), []byte(`{"round": 1, "updated_at": 1763545173.25}`), []byte("{\"round\": 0, \"my_reward\": NaN}\n"),
		[]byte(`{"rollouts": {"1": [{"actions": ["a"]}]}}`))
	f.Add([]byte("training: [1, {a: !!binary x}]\n"), []byte(`[]`), []byte("{\"cumulative_reward\": 1e308, \"round\": 2}\n{"), []byte(`{"rollouts": null}`))
	f.Add([]byte{0xff}, []byte(`{"round": -1}`), []byte("{\"timestamp\": Infinity, \"round\": 1, \"stage_reward\": 1, \"num_samples\": 0}\n"), []byte(`{`))
	database, err := store.Open(f.Context(), filepath.Join(f.TempDir(), "swarm.db"), store.Options{})
	require.NoError(f, err)
	defer database.Close()
	f.Fuzz(func(t *testing.T, config, state, log, rollouts []byte) {
		x := example(t)
		x.workers, x.rounds, x.planned = 2, 2, 2
		dir := x.write(t)
		for name, content := range map[string][]byte{
			"config.yaml": config, "state/current_state.json": state, "peers/node_2.json": state, "progress_node_1.json": log,
			"rollouts/round_0/stage_0/node_1.json": rollouts, "rewards/round_1/stage_0/node_2.json": log,
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
		appendTo(t, filepath.Join(dir, "logs/node_1/metrics.jsonl"), string(log))
		read, report, err := Read(t.Context(), dir, Options{})
		require.NotNil(t, report)
		if err != nil {
			require.False(t, errors.Is(err, ErrNothing), "node_2's log is whole")
			return
		}
		_, err = database.Import(t.Context(), read)
		require.NoError(t, err)
		outcome, err := database.Import(t.Context(), read)
		require.NoError(t, err)
		require.Equal(t, store.ImportUnchanged, outcome)
	})
}
