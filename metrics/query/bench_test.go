package query_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// million fills a database with 25 experiments of 5 seeds, 8 nodes and 1000 rounds each.
const million = `
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 124)
INSERT INTO runs (run, experiment, state, seed, rounds, nodes, num_train_samples, num_transplant_trees, num_generations, config, plan, versions,
  started, resumed, ended)
SELECT 'run' || i, 'experiment' || (i / 5), 'done', i % 5, 1000, 8, 4, 4, 8, '{}', '{}', '{}', i, i, i + 1 FROM n;

WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 7)
INSERT INTO nodes (run, node, state, rounds_done, last_round, cumulative_reward)
SELECT run, 'node_' || i, 'done', 1000, 999, 300.0 + seed + length(experiment) * abs(random() % 5) FROM runs, n;

WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
INSERT INTO rounds (run, round, node, time, reward, completions, steps, trained_own, trained_external, late, non_finite)
SELECT runs.run, i, node, i, 0.3 + 0.0001 * i, 32, 8, 4, 4, 0, '' FROM runs CROSS JOIN n CROSS JOIN nodes ON nodes.run = runs.run;`

// BenchmarkCompareOfAMillionRounds measures `swarm compare` over a database of 1,000,000 rounds. The limit is 0.5 s.
func BenchmarkCompareOfAMillionRounds(b *testing.B) {
	path := filepath.Join(b.TempDir(), "swarm.db")
	s, err := store.Open(b.Context(), path, store.Options{})
	require.NoError(b, err)
	require.NoError(b, s.Close())
	db, err := sql.Open("sqlite3", path)
	require.NoError(b, err)
	_, err = db.ExecContext(b.Context(), million)
	require.NoError(b, errors.Join(err, db.Close()))
	for name, o := range map[string]stats.CompareOptions{"sums": {}, "json": {Bootstrap: true}, "pairs": {Pairs: true}, "bootstrapped pairs": {Pairs: true, Bootstrap: true}, "target": {Target: 0.35}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				reader, err := store.OpenReader(b.Context(), path)
				require.NoError(b, err)
				c, err := query.Compare(b.Context(), reader, query.CompareOptions{CompareOptions: o})
				require.NoError(b, errors.Join(err, reader.Close()))
				require.Len(b, c.Rows, 25)
				require.Equal(b, 5, c.Rows[0].Runs)
			}
		})
	}
}
