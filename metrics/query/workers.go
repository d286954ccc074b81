package query

import (
	"context"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Workers reads the other hosts of a run and the usefulness of their rollouts, by name. A run without workers has none.
// It reads every round of a run with workers.
func Workers(ctx context.Context, reader *store.Reader, run string) ([]stats.WorkerRow, error) {
	snapshot, err := reader.Snapshot(ctx, run)
	if err != nil || len(snapshot.Workers) == 0 {
		return []stats.WorkerRow{}, err
	}
	rollouts, err := reader.WorkerRollouts(ctx, snapshot.Run.Run)
	if err != nil {
		return nil, err
	}
	return stats.NewWorkerRows(snapshot, rollouts), nil
}
