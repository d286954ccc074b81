package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

// company lets other hosts' nodes into a run: it says who may, and what becomes of what they send.
type company struct {
	flags      companyFlags
	registry   *membership.Registry // nil with a folder, whose own access decides
	reception  *membership.Reception
	way        hostWay
	local      []string     // this host's nodes
	invitation string       // the command to type elsewhere
	done       atomic.Bool  // a worker's node has done all its rounds
	pace       atomic.Int64 // nanoseconds that a round took here last
}

// receive opens the reception, once the run is recorded and its events are taken.
func (f *company) receive(ctx context.Context, c *coordinator, events *recorder, logger *slog.Logger) error {
	known, err := c.reader.Members(ctx, c.run)
	if err != nil {
		return err
	}
	var before []membership.KnownMember
	for _, m := range known {
		if m.Worker != "" {
			before = append(before, membership.KnownMember{Node: m.Node, Worker: m.Worker, From: m.From})
		}
	}
	f.local = c.nodeIDs
	f.reception, err = membership.NewReception(membership.ReceptionOptions{
		Run: c.run, Experiment: c.p.config.Experiment, Version: version, Config: c.config, Cfg: c.p.config, Inputs: c.inputs,
		Local: event.Members(c.nodeIDs...), Rounds: c.p.config.Rounds, Registry: f.registry, Trusted: f.registry == nil,
		Store: f.way.store,
		Deliver: func(ctx context.Context, worker string, d membership.Delivery, list []event.Event) error {
			return events.deliver(ctx, worker, d, list)
		},
		Acked: func(ctx context.Context, worker, outbox string) (int64, error) {
			return c.reader.Delivered(ctx, c.run, worker, outbox)
		},
		Recorded: func(ctx context.Context) (map[string]int, map[string][]int, error) {
			recorded, err := c.reader.Recorded(ctx, c.run)
			if err != nil {
				return nil, nil, err
			}
			evaluated, err := c.reader.Evaluated(ctx, c.run)
			return recorded, evaluated, err
		},
		Tell: events.take, Expel: f.expel, Now: time.Now, Logger: logger,
	}, before)
	if err != nil {
		return err
	}
	if len(f.local) == 0 { // it is the workers' nodes whose end is waited for
		recorded, err := c.reader.Recorded(ctx, c.run)
		if err != nil {
			return err
		}
		for _, m := range before {
			if recorded[m.Node] >= c.p.config.Rounds {
				f.done.Store(true)
			}
		}
	}
	if folder, ok := f.way.(*folderWay); ok {
		return sharedir.Announce(folder.dir, membership.Welcome{
			Protocol: membership.Protocol, Run: c.run, Experiment: c.p.config.Experiment, Config: c.config, Inputs: c.inputs,
			Version: version, Time: event.Now(),
		})
	}
	return nil
}

// expel ends the connections of a worker that may not be here any more.
func (f *company) expel(worker string) {
	if bus, ok := f.way.(*busWay); ok {
		bus.server.Disconnect(worker)
	}
}

// serve answers workers until ctx ends.
func (f *company) serve(ctx context.Context, c *coordinator, events *recorder, logger *slog.Logger) {
	events.group.Go(func() { f.reception.Serve(ctx) })
	events.group.Go(func() {
		if err := f.way.serve(ctx, f.reception); err != nil && ctx.Err() == nil {
			events.warn("nobody can join any more, and workers are not heard: " + err.Error())
		}
	})
	events.group.Go(func() { f.book(ctx, c, logger) })
	if folder, ok := f.way.(*folderWay); ok {
		events.group.Go(func() { f.snapshots(ctx, c, folder, logger) })
		events.group.Go(func() { f.foreigners(ctx, folder, logger) })
	}
}

// others are the workers' nodes. This host's own are waited for by each other whatever the reception thinks of them: equal seeds give equal results.
func (f *company) others() ([]event.Member, <-chan struct{}) {
	members, changed := f.reception.Members()
	return slices.DeleteFunc(slices.Clone(members), func(m event.Member) bool { return slices.Contains(f.local, m.Node) }), changed
}

// hear follows what workers deliver.
func (f *company) hear(e event.Event) {
	if e.Type == event.TypeState && e.State == event.StateDone {
		f.done.Store(true)
	}
}

// see follows this host's nodes.
func (f *company) see(e event.Event) {
	switch {
	case e.Worker != "" || e.Node == "":
	case e.Type == event.TypeState:
		f.reception.Progress(e.Node, e.RoundIndex)
	case e.Type == event.TypeRound && !e.Replayed:
		f.reception.Progress(e.Node, e.Round.Round+1)
		f.pace.Store(int64(e.Round.StepTime * float64(time.Second)))
	case e.Type == event.TypeGiveUp:
		f.reception.Lost(e.Node)
	}
}

// farewell is how long workers get to hear of the end and to deliver the rest of what they have, over a network.
const farewell = 30 * time.Second

// settle waits for the workers' nodes after this host's own are done: for those that are in step with them, about a round behind, at a barrier, and
// for those that need no longer for the rest than a node would wait for them at one. What is heard through a folder is old: a node may be done that is
// rounds behind by it. Others may be far behind, and nobody pays for a GPU that waits for them: they are told to stop.
func (f *company) settle(ctx context.Context, config configs.Config, logger *slog.Logger) error {
	if config.Async() {
		return nil
	}
	patience := time.Duration(config.BarrierDeadline * float64(time.Second))
	soon := func(n membership.NodeStatus) bool {
		return doneSoon(n, config.Rounds, time.Duration(f.pace.Load()), patience)
	}
	if nodes := f.working(soon); nodes > 0 {
		logger.Info("waiting for workers' last rounds", "nodes", nodes, "at_most", patience)
	}
	ticker := time.NewTicker(settleInterval)
	defer ticker.Stop()
	for end := time.Now().Add(patience); f.working(soon) > 0 && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return fmt.Errorf("run stopped: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
	return nil
}

// doneSoon tells whether a node is in step, or has its rounds done within patience if they take as long as the last one here; 0: none is known.
func doneSoon(n membership.NodeStatus, rounds int, pace, patience time.Duration) bool {
	return !n.Absent || pace > 0 && float64(rounds-n.Round)*pace.Seconds() <= patience.Seconds()
}

// settleInterval is how often a run that is done here looks whether its workers are.
const settleInterval = 200 * time.Millisecond

// working is how many nodes of workers that are here have rounds to do, of those that count.
func (f *company) working(counts func(membership.NodeStatus) bool) (nodes int) {
	for _, w := range f.reception.Workers() {
		for _, n := range w.Nodes {
			if w.State == event.WorkerConnected && n.State != event.StateDone && n.State != event.StateGivenUp && counts(n) {
				nodes++
			}
		}
	}
	return nodes
}

// silence is how long a worker may say nothing and still be there.
func (f *company) silence() time.Duration {
	if _, folder := f.way.(*folderWay); folder {
		return sharedir.SilentAfter
	}
	return membership.SilentAfter
}

func everyone(membership.NodeStatus) bool { return true }

// hostInterval is how often a host without nodes looks whether the others' are done.
const hostInterval = time.Second

// host waits until nodes that joined have done all their rounds, and no other that is here still works: what a host without nodes of its own does.
func (f *company) host(ctx context.Context) error {
	ticker := time.NewTicker(hostInterval)
	defer ticker.Stop()
	busyUntil := time.Now()
	if f.done.Load() { // by what is recorded: others may be at it that this process has not heard of yet
		busyUntil = busyUntil.Add(f.silence())
	}
	for {
		if f.done.Load() && !time.Now().Before(busyUntil) && f.working(everyone) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("run stopped: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// dismiss tells workers how the run ended, and waits until they have taken leave, or now is closed.
func (f *company) dismiss(ctx context.Context, now <-chan struct{}, state, message string, logger *slog.Logger) {
	f.reception.End(state, message)
	patience := max(farewell, f.silence())
	ctx, end := interrupt.WithLimit(ctx, patience, now)
	defer end()
	if err := f.reception.Settled(ctx, patience); err != nil {
		logger.Warn("some workers didn't take leave: what they have not delivered they keep, and deliver when the run goes on", "error", err)
	}
}
