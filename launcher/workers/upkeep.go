package workers

import (
	"context"
	"log/slog"
	"time"

	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

// bookInterval is the time between two records of the workers' states.
const bookInterval = 5 * time.Second

// book records the workers' states in the database until ctx ends.
func (a *Admission) book(ctx context.Context, logger *slog.Logger) {
	ticker := time.NewTicker(bookInterval)
	defer ticker.Stop()
	for {
		a.bookOnce(context.WithoutCancel(ctx), logger)
		select {
		case <-ctx.Done():
			a.bookOnce(context.WithoutCancel(ctx), logger)
			return
		case <-ticker.C:
		}
	}
}

func (a *Admission) bookOnce(ctx context.Context, logger *slog.Logger) {
	var workers []store.Worker
	for _, w := range a.server.Workers() {
		workers = append(workers, store.Worker{
			Worker: w.Worker, Host: w.Host, Device: w.Device, Version: w.Version, State: w.State, LastSeen: w.LastSeen, Nodes: len(w.Nodes),
			Offered: w.Offered, Refused: w.Refused, Bytes: w.Bytes, Reason: w.Reason,
		})
	}
	if workers == nil {
		return
	}
	if err := a.run.Store.SaveWorker(ctx, a.run.Name, workers...); err != nil {
		logger.Warn("workers' states were not recorded", "error", err)
	}
}

// snapshotInterval is the time between copies of the run's records into a shared folder.
const snapshotInterval = 10 * time.Minute

// snapshots copies the run's records into the shared folder at intervals and at the end. It does not copy the
// database, whose other runs and jobs are not for everyone with access to the folder.
func (a *Admission) snapshots(ctx context.Context, folder *folderTransport, logger *slog.Logger) {
	ticker := time.NewTicker(snapshotInterval)
	defer ticker.Stop()
	extract := func(ctx context.Context, path string) error {
		_, err := a.run.Reader.Extract(ctx, path, []string{a.run.Name})
		return err
	}
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case <-ticker.C:
		}
		if err := sharedir.Snapshot(context.WithoutCancel(ctx), extract, folder.dir, a.run.Name); err != nil {
			logger.Warn("the run's records were not copied to the shared folder", "error", err)
		}
	}
}

// foreignInterval is the time between searches for rl-swarm's nodes in a shared folder.
const foreignInterval = 30 * time.Second

// foreigners admits rl-swarm's nodes that write into the folder, until ctx ends.
func (a *Admission) foreigners(ctx context.Context, folder *folderTransport, logger *slog.Logger) {
	ticker := time.NewTicker(foreignInterval)
	defer ticker.Stop()
	for {
		nodes, err := sharedir.Foreign(folder.dir, folder.run)
		if err != nil {
			logger.Debug("rl-swarm's nodes can't be listed", "error", err)
		}
		for _, node := range nodes {
			a.server.Foreign(node, 0)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
