package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

// bookInterval is how often the database hears how workers fare.
const bookInterval = 5 * time.Second

// book records how workers fare, until ctx ends.
func (f *company) book(ctx context.Context, c *coordinator, logger *slog.Logger) {
	ticker := time.NewTicker(bookInterval)
	defer ticker.Stop()
	for {
		f.bookOnce(context.WithoutCancel(ctx), c, logger)
		select {
		case <-ctx.Done():
			f.bookOnce(context.WithoutCancel(ctx), c, logger)
			return
		case <-ticker.C:
		}
	}
}

func (f *company) bookOnce(ctx context.Context, c *coordinator, logger *slog.Logger) {
	var workers []store.Worker
	for _, w := range f.reception.Workers() {
		workers = append(workers, store.Worker{
			Worker: w.Worker, Host: w.Host, Device: w.Device, Version: w.Version, State: w.State, LastSeen: w.LastSeen, Nodes: len(w.Nodes),
			Offered: w.Offered, Refused: w.Refused, Bytes: w.Bytes, Reason: w.Reason,
		})
	}
	if workers == nil {
		return
	}
	if err := c.store.SaveWorker(ctx, c.run, workers...); err != nil {
		logger.Warn("workers' states were not recorded", "error", err)
	}
}

// snapshotInterval is how often a copy of the database goes into a shared folder.
const snapshotInterval = 10 * time.Minute

// snapshots copies the database into the shared folder, now and then and at the end: the live one stays here.
func (f *company) snapshots(ctx context.Context, c *coordinator, folder *folderWay, logger *slog.Logger) {
	ticker := time.NewTicker(snapshotInterval)
	defer ticker.Stop()
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case <-ticker.C:
		}
		if err := sharedir.Snapshot(context.WithoutCancel(ctx), c.reader.CopyTo, folder.dir, c.run); err != nil {
			logger.Warn("no copy of the database in the shared folder", "error", err)
		}
	}
}

// foreignInterval is how often a shared folder is looked through for nodes of the predecessor.
const foreignInterval = 30 * time.Second

// foreigners seats the predecessor's nodes that write into the folder, until ctx ends.
func (f *company) foreigners(ctx context.Context, folder *folderWay, logger *slog.Logger) {
	ticker := time.NewTicker(foreignInterval)
	defer ticker.Stop()
	for {
		nodes, err := sharedir.Foreign(folder.dir, folder.run)
		if err != nil {
			logger.Debug("the predecessor's nodes can't be listed", "error", err)
		}
		for _, node := range nodes {
			f.reception.Foreign(node, 0)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
