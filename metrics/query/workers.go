package query

import (
	"context"

	"github.com/sapo-swarm/swarm/metrics/stats/workers"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Workers reads the other hosts of a run and the usefulness of their rollouts, by name. A run without workers has none.
// It reads every round of a run with workers.
func Workers(ctx context.Context, reader *store.Reader, run string) ([]workers.Row, error) {
	snapshot, err := reader.Snapshot(ctx, run)
	if err != nil || len(snapshot.Workers) == 0 {
		return []workers.Row{}, err
	}
	rollouts, err := reader.WorkerRollouts(ctx, snapshot.Run.Run)
	if err != nil {
		return nil, err
	}
	return workers.Rows(snapshot, rollouts), nil
}
