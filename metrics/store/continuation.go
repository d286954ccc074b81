package store

import (
	"context"
	"database/sql"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// FindRun returns the newest run of an experiment with that seed that was recorded in this home, or nil. Imported runs
// do not count: they cannot be resumed, and a sweep does not accept them in place of a run.
func (r *Reader) FindRun(ctx context.Context, experiment string, seed int64) (*Run, error) {
	return r.newest(ctx, "experiment = ? AND seed = ? AND versions ->> '"+importedKey+"' IS NULL", experiment, seed)
}

// FindImported returns the newest finished run of an experiment with that seed and number of rounds, imported from
// another home of this program, or nil. Runs of another length do not count, because an imported run cannot be resumed
// here.
func (r *Reader) FindImported(ctx context.Context, experiment string, seed int64, rounds int) (*Run, error) {
	return r.newest(ctx, "experiment = ? AND seed = ? AND rounds = ? AND versions ->> '"+importedKey+"' = ? AND state = ?",
		experiment, seed, rounds, FormatSwarm, RunDone)
}

// newest returns the selected run that was started or resumed last.
func (r *Reader) newest(ctx context.Context, where string, args ...any) (*Run, error) {
	var newest *Run
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		newest = &Run{}
		return rows.Scan(newest.fields()...)
	}, `SELECT `+runColumns+` FROM runs WHERE `+where+` ORDER BY resumed DESC, length(run) DESC, run DESC LIMIT 1`, args...)
	return newest, sqlite.Explain(r.path, err)
}

// Recorded returns for every node of a run the number of the first round that is missing in the database. It counts
// without a gap from the node's first round (Node.From). The node must report rounds from that number on again. For the
// coordinator's own nodes it is the number of recorded rounds.
func (r *Reader) Recorded(ctx context.Context, run string) (map[string]int, error) {
	recorded := map[string]int{}
	shared, err := r.has(ctx, schemaWorkers)
	if err != nil {
		return recorded, err
	}
	from := "from_round"
	if !shared {
		from = "0"
	}
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var node string
		var rounds int
		err := rows.Scan(&node, &rounds)
		recorded[node] = rounds
		return err
	}, `SELECT node, first + count(round) FROM (SELECT node, `+from+` AS first FROM nodes WHERE run = ?1) LEFT JOIN (
  SELECT rounds.node AS of_node, round, row_number() OVER (PARTITION BY rounds.node ORDER BY round) - 1 AS position
  FROM rounds JOIN nodes USING (run, node) WHERE run = ?1 AND round >= `+from+`)
ON of_node = node AND round = first + position GROUP BY node, first`, run)
	return recorded, sqlite.Explain(r.path, err)
}
