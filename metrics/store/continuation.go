package store

import (
	"context"
	"database/sql"
)

// FindRun returns the newest run of an experiment with that seed that was recorded here, nil where there is none: an imported one can't go on,
// and doesn't stand for one that a sweep has yet to do.
func (r *Reader) FindRun(ctx context.Context, experiment string, seed int64) (*Run, error) {
	var newest *Run
	err := query(ctx, r.db, func(rows *sql.Rows) error {
		newest = &Run{}
		return rows.Scan(newest.fields()...)
	}, `SELECT `+runColumns+` FROM runs WHERE experiment = ? AND seed = ? AND versions ->> '`+importedKey+`' IS NULL
ORDER BY resumed DESC, length(run) DESC, run DESC LIMIT 1`,
		experiment, seed)
	return newest, explain(r.path, err)
}

// Recorded returns for every node of a run how many rounds the database has of it, from 0 without a gap: what it did after these
// it has to tell again.
func (r *Reader) Recorded(ctx context.Context, run string) (map[string]int, error) {
	recorded := map[string]int{}
	err := query(ctx, r.db, func(rows *sql.Rows) error {
		var node string
		var rounds int
		err := rows.Scan(&node, &rounds)
		recorded[node] = rounds
		return err
	}, `SELECT node, count(round) FROM nodes LEFT JOIN (
  SELECT node AS of_node, round, row_number() OVER (PARTITION BY node ORDER BY round) - 1 AS position FROM rounds WHERE run = ?1)
ON of_node = node AND round = position WHERE run = ?1 GROUP BY node`, run)
	return recorded, explain(r.path, err)
}
