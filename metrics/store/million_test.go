package store

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// millionRounds returns a database with 63 runs of 8 nodes and 2000 rounds: 1,008,000 rows of rounds. One run has
// tasks, peers, questions and 16 hours of memory samples. All runs have evaluations.
func millionRounds(b *testing.B) *Reader {
	b.Helper()
	s := openStore(b, filepath.Join(b.TempDir(), "swarm.db"), Options{})
	for run := range 63 {
		for _, q := range []string{
			`INSERT INTO runs (run, experiment, state, seed, rounds, nodes, num_train_samples, num_transplant_trees, num_generations, config, plan,
  versions, started, resumed, ended) VALUES (?1, 'e' || (?2 % 9), 'done', ?2 / 9, 2000, 8, 4, 4, 8, '{}', '{}', '{}', 1, 1, 2)`,
			`INSERT INTO attempts (run, attempt, started, seen, ended, state) VALUES (?1, 1, 1, ?2 + 2, ?2 + 2, 'done')`,
			`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 7)
INSERT INTO nodes (run, node, rounds_done, last_round, cumulative_reward) SELECT ?1, 'node_' || i, 2000, 1999, 500 + ?2 + i FROM n`,
			`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 15999)
INSERT INTO rounds SELECT ?1, i / 8, 'node_' || (i % 8), 1000.0 + i, i % 97 / 97.0, 0.1, i % 89 / 89.0, 0.2, 0.5, 32, 80.5, 0.0, 0.01,
  0.0, 1.5, 2.2, 0.0, 0.0, 1, 4, 4, 9.5, 6.5, 2.0, 0.1, 0.5, ?2 / 100.0, 0, '', 0.01 FROM n`,
			`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 167)
INSERT INTO evals SELECT ?1, i / 8 * 100, 'node_' || (i % 8), 1000.0 + i, 'set', 48, 4, 1.0, 0.5, 80.0, 3.0, 20 + ?2 % 3, 22.5, '' FROM n`,
		} {
			_, err := s.db.Exec(q, fmt.Sprintf("run-%02d", run), run)
			require.NoError(b, err)
		}
	}
	for _, q := range []string{
		`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 47)
INSERT INTO eval_questions SELECT run, round, node, i, 'task_' || (i % 13), 2, 2.5 FROM evals, n WHERE run = 'run-07'`,
		`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 5759)
INSERT INTO memory SELECT run, node, 1000 + 10 * i, 1000000 + i, 2000000, 3000000, 4000000 + i FROM nodes, n WHERE run = 'run-07'`,
		`INSERT INTO task_rewards WITH t(x) AS (VALUES ('a'), ('b'), ('c'), ('d')) SELECT run, round, node, x, 8, 2.0 FROM rounds, t
WHERE run = 'run-07'`,
		`INSERT INTO peers SELECT run, round, r.node, p.node, 4, 0, 1, 2, 0 FROM rounds r JOIN nodes p USING (run)
WHERE run = 'run-07' AND r.node != p.node`,
	} {
		_, err := s.db.Exec(q)
		require.NoError(b, err)
	}
	require.NoError(b, s.Close())
	return readerOf(b, s)
}

// BenchmarkMillionRounds measures the queries of all surfaces on a database with a million rounds. "ratio" compares
// with the time to sum the rewards of all rounds, which a comparison would need without maintained sums.
func BenchmarkMillionRounds(b *testing.B) {
	r := millionRounds(b)
	ctx := context.Background()
	require.NoError(b, r.db.QueryRow("SELECT count(*) FROM (SELECT sum(reward) FROM rounds GROUP BY run)").Scan(new(int))) // warms the cache
	started := time.Now()
	require.NoError(b, r.db.QueryRow("SELECT count(*) FROM (SELECT sum(reward) FROM rounds GROUP BY run)").Scan(new(int)))
	scan := time.Since(started)
	for _, c := range []struct {
		name string
		ask  func() (rows int, err error)
		want int
	}{
		{"Runs", func() (int, error) { x, err := r.Runs(ctx, Filter{}); return len(x), err }, 63},
		{"NewestEvals", func() (int, error) { x, err := r.NewestEvals(ctx); return len(x), err }, 63},
		{"Snapshot", func() (int, error) { x, err := r.Snapshot(ctx, "run-07"); return len(x.Recent), err }, 8 * RecentRounds},
		{"RoundBands", func() (int, error) { x, err := r.RoundBands(ctx, "run-07", "reward", 0); return len(x), err }, 2000},
		{"RoundValues", func() (int, error) { x, err := r.RoundValues(ctx, "run-07", "reward", 0); return len(x), err }, 16000},
		{"RoundValuesNew", func() (int, error) { x, err := r.RoundValues(ctx, "run-07", "reward", 1999); return len(x), err }, 8},
		{"TaskTotals", func() (int, error) { x, err := r.TaskTotals(ctx, "run-07", 20); return len(x), err }, 400},
		{"Memory", func() (int, error) { x, err := r.Memory(ctx, "run-07", 0, 150); return len(x), err }, 8 * 385},
		{"Evals", func() (int, error) { x, err := r.Evals(ctx, "run-07"); return len(x), err }, 168},
		{"PeerTotals", func() (int, error) { x, err := r.PeerTotals(ctx, "run-07"); return len(x), err }, 56},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				rows, err := c.ask()
				require.NoError(b, err)
				require.Equal(b, c.want, rows)
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*1000, "ms")
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/scan.Seconds(), "ratio")
		})
	}
}
