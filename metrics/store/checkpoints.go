package store

import (
	"context"
	"database/sql"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

const insertCheckpointSQL = `INSERT INTO checkpoints (run, node, time, round, path, bytes, weight_hash, seconds, pause)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO UPDATE SET time = ?3, path = ?5, bytes = ?6, weight_hash = ?7, seconds = ?8, pause = ?9 WHERE time < ?3`

func (tx *transaction) checkpoint(e event.Event) error {
	c := e.Checkpoint
	_, err := tx.exec(insertCheckpointSQL, e.Run, e.Node, e.Time, c.Round, c.Path, c.Bytes, c.WeightHash, finite(c.Seconds), finite(c.Pause))
	return err
}

// NodeCheckpoint is a checkpoint as reported. Its files may be gone, because a node keeps only its newest checkpoints.
type NodeCheckpoint struct {
	Node string
	Time float64 // Unix seconds
	event.Checkpoint
}

const checkpointColumns = `node, time, round, path, bytes, weight_hash, coalesce(seconds, 0.0), coalesce(pause, 0.0)`

func (c *NodeCheckpoint) fields() []any {
	return []any{&c.Node, &c.Time, &c.Round, &c.Path, &c.Bytes, &c.WeightHash, &c.Seconds, &c.Pause}
}

// Checkpoints returns all checkpoints that a run's nodes reported, by node and round.
func (r *Reader) Checkpoints(ctx context.Context, run string) ([]NodeCheckpoint, error) {
	var found []NodeCheckpoint
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var c NodeCheckpoint
		err := rows.Scan(c.fields()...)
		found = append(found, c)
		return err
	}, `SELECT `+checkpointColumns+` FROM checkpoints WHERE run = ? ORDER BY length(node), node, round`, run)
	return found, sqlite.Explain(r.path, err)
}

// Checkpoint returns the newest checkpoint of a node, or nil if it has none.
func (r *Reader) Checkpoint(ctx context.Context, run, node string) (*event.Checkpoint, error) {
	var newest *event.Checkpoint
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var c NodeCheckpoint
		err := rows.Scan(c.fields()...)
		newest = &c.Checkpoint
		return err
	}, `SELECT `+checkpointColumns+` FROM checkpoints WHERE run = ? AND node = ? ORDER BY round DESC LIMIT 1`, run, node)
	return newest, sqlite.Explain(r.path, err)
}
