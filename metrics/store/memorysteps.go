package store

import (
	"context"
	"database/sql"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// MemoryStepTotal counts one kind of step that a run took when memory ran out.
type MemoryStepTotal struct {
	Cause, Action string // one of event.Memory* and event.Action*
	Count         int
}

const memoryStepsSQL = `SELECT cause, coalesce(detail ->> 'action', '') AS action, count(*) FROM events
WHERE run = ? AND type = ? GROUP BY cause, action ORDER BY cause, action`

// MemorySteps counts the steps that a run's nodes took when memory ran out, by cause and action.
func (r *Reader) MemorySteps(ctx context.Context, run string) ([]MemoryStepTotal, error) {
	var totals []MemoryStepTotal
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var x MemoryStepTotal
		err := rows.Scan(&x.Cause, &x.Action, &x.Count)
		totals = append(totals, x)
		return err
	}, memoryStepsSQL, run, string(event.TypeMemoryStep))
	return totals, sqlite.Explain(r.path, err)
}
