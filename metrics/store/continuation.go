package store

import (
	"context"
	"database/sql"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// FindRun returns the newest run of an experiment with that seed that was recorded here, nil where there is none: an
// imported one can't go on, and doesn't stand for one that a sweep has yet to do.
func (r *Reader) FindRun(ctx context.Context, experiment string, seed int64) (*Run, error) {
	return r.newest(ctx, "experiment = ? AND seed = ? AND versions ->> '"+importedKey+"' IS NULL", experiment, seed)
}

// FindImported returns the newest run of an experiment with that seed that another home of this program has done with
// so many rounds, nil where there is none. A longer or a shorter one is none, since it can't go on here.
func (r *Reader) FindImported(ctx context.Context, experiment string, seed int64, rounds int) (*Run, error) {
	return r.newest(ctx, "experiment = ? AND seed = ? AND rounds = ? AND versions ->> '"+importedKey+"' = ? AND state = ?",
		experiment, seed, rounds, FormatSwarm, RunDone)
}

// newest is the run that where chooses which began last.
func (r *Reader) newest(ctx context.Context, where string, args ...any) (*Run, error) {
	var newest *Run
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		newest = &Run{}
		return rows.Scan(newest.fields()...)
	}, `SELECT `+runColumns+` FROM runs WHERE `+where+` ORDER BY resumed DESC, length(run) DESC, run DESC LIMIT 1`, args...)
	return newest, sqlite.Explain(r.path, err)
}

// Recorded returns for every node of a run up to which round the database has all of its rounds, without a gap from the
// first that is its (Node.From): rounds from that number on it has to tell again. Of a node of the coordinator's own
// that is how many there are.
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
