package store

import (
	"context"
	"database/sql"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// WorkerRollouts counts how nodes of other owners, the coordinator and other workers, used a worker's rollouts over a
// run.
type WorkerRollouts struct {
	Worker                              string
	Available, Rejected, Filtered, Used int
}

// A worker's own nodes do not count.
const workerRolloutsSQL = `SELECT sender.worker, sum(available), sum(rejected), sum(filtered), sum(used)
FROM peers CROSS JOIN nodes AS sender ON sender.run = peers.run AND sender.node = peers.peer AND sender.worker != ''
CROSS JOIN nodes AS judge ON judge.run = peers.run AND judge.node = peers.node AND judge.worker != sender.worker
WHERE peers.run = ? GROUP BY sender.worker ORDER BY length(sender.worker), sender.worker`

// WorkerRollouts returns the counts of each worker's rollouts, by worker. Workers whose rollouts no other node received
// are omitted.
func (r *Reader) WorkerRollouts(ctx context.Context, run string) ([]WorkerRollouts, error) {
	if ok, err := r.has(ctx, schemaWorkers); err != nil || !ok {
		return nil, err
	}
	var totals []WorkerRollouts
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var x WorkerRollouts
		err := rows.Scan(&x.Worker, &x.Available, &x.Rejected, &x.Filtered, &x.Used)
		totals = append(totals, x)
		return err
	}, workerRolloutsSQL, run)
	return totals, sqlite.Explain(r.path, err)
}
