package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/sapo-swarm/swarm/launcher"
	"github.com/sapo-swarm/swarm/launcher/mps"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// recorder takes every event of a run: into the database, to whoever shows it, and to what follows the run by its events.
type recorder struct {
	ctx     context.Context // of the run; it ends once the nodes are gone
	c       *coordinator
	feed    *terminal.Feed
	lines   *printer // nil: nobody wants the events themselves
	logger  *slog.Logger
	group   sync.WaitGroup
	devices *deviceWatch
	mps     *mpsSharer // nil without MPS

	mu      sync.Mutex // the launcher's events and the watches' come side by side
	keep    *retention
	seen    peaks
	loading map[string]bool // nodes that have not yet loaded
}

func newRecorder(ctx context.Context, c *coordinator, feed *terminal.Feed, lines *printer, logger *slog.Logger) *recorder {
	r := &recorder{
		ctx: ctx, c: c, feed: feed, lines: lines, logger: logger, loading: map[string]bool{},
		keep: newRetention(context.WithoutCancel(ctx), c.bus, c.run, c.nodeIDs, logger),
	}
	for _, id := range c.nodeIDs {
		r.loading[id] = true
	}
	r.devices = newDeviceWatch(c.p.plan, r.take, logger)
	return r
}

// take is the launcher's sink.
func (r *recorder) take(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Run = r.c.run
	r.keep.see(e)
	r.devices.see(e)
	r.seen.see(e)
	if e.Type == event.TypeLoaded {
		r.loaded(e)
	}
	if e.Type == event.TypeLease || e.Type == event.TypeRelease {
		return
	}
	r.feed.Add(e)
	if err := r.c.store.Record(context.WithoutCancel(r.ctx), e); err != nil {
		r.logger.Error("event not recorded", "type", e.Type, "node", e.Node, "error", err)
	}
	if r.lines != nil {
		r.lines.add(e)
	}
}

func (r *recorder) loaded(e event.Event) {
	if delete(r.loading, e.Node); len(r.loading) == 0 {
		r.c.p.turn.release() // the GPUs show now what the nodes take
	}
	if r.mps != nil && r.ctx.Err() == nil {
		r.group.Go(func() { r.mps.verify(r.ctx, e, slices.Index(r.c.nodeIDs, e.Node), r.take) })
	}
}

// watchDevices begins to sample the GPUs, and returns where their faults are told.
func (r *recorder) watchDevices() <-chan launcher.Fault {
	r.group.Go(func() { r.devices.serve(r.ctx) })
	return r.devices.faults
}

// watchMPS hands on the faults of MPS, and has every node that loads proved to be its client.
func (r *recorder) watchMPS(host *mps.Host) launcher.Sharer {
	r.mps = &mpsSharer{host, r.c.p.plan.PerNode.Context}
	r.group.Go(func() { forwardFaults(r.ctx, host.Faults(), r.devices.faults) })
	return r.mps
}

// close ends what follows the run. Its context has ended.
func (r *recorder) close() {
	r.group.Wait()
	r.keep.close()
	r.c.freshen(context.WithoutCancel(r.ctx), r.seen)
}
