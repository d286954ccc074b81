package coordinator

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/launcher/launch"
	"github.com/sapo-swarm/swarm/launcher/mps"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// recorder handles every event of a run. It records the event in the database, and passes it to the displays and to
// the components that follow the run.
type recorder struct {
	ctx     context.Context // of the run; ends after the nodes have ended
	c       *Run
	feed    *terminal.Feed
	lines   *event.Writer // of up -o json; nil: no output of events
	logger  *slog.Logger
	past    *slog.Logger    // the run's chronicle for swarm logs
	fail    func(error)     // stops the run cleanly
	now     <-chan struct{} // closed to end the process at once
	answer  func(string)    // sets the notice for the first Ctrl-C
	group   sync.WaitGroup
	devices *deviceWatch
	mps     *mpsSharer // nil without MPS

	mu      sync.Mutex // the launcher and the watches emit events concurrently
	keep    *retention
	seen    peaks
	loading map[string]bool // nodes that have neither loaded nor been given up
	alarm   *alarmWatch     // nil: nobody judges the gradient norms

	verdicts *verdicts // nil: the alarm does not lower the learning rate
}

func newRecorder(ctx context.Context, c *Run, feed *terminal.Feed, lines *event.Writer, logger, chronicle *slog.Logger, fail func(error), now <-chan struct{}) *recorder {
	r := &recorder{
		ctx: ctx, c: c, feed: feed, lines: lines, logger: logger, past: chronicle, fail: fail, now: now, loading: map[string]bool{},
		keep: newRetention(context.WithoutCancel(ctx), c.transport, c.nodeIDs, c.p.Config.ExternalLag, logger),
	}
	for _, id := range c.nodeIDs {
		r.loading[id] = true
	}
	r.devices = newDeviceWatch(c.p.Plan, r.Record, logger)
	return r
}

// Record handles an event of the launcher or of another component.
func (r *recorder) Record(e event.Event) {
	r.record(e)
	if r.c.o.Admission != nil {
		r.c.o.Admission.Observe(e) // which may emit events itself
	}
}

func (r *recorder) record(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Run = r.c.run
	r.c.clock.stamp(&e)
	if e.Worker == "" || r.c.o.Worker != nil {
		r.keep.see(e)
		r.devices.see(e)
		r.seen.see(e)
	}
	if r.c.o.Worker != nil {
		r.c.o.Worker.Observe(e)
	}
	switch {
	case e.Type == event.TypeLoaded:
		r.loaded(e)
	case e.Type == event.TypeGiveUp:
		if r.ctx.Err() == nil && slices.Contains(r.c.nodeIDs, e.Node) {
			r.group.Go(func() { r.c.claims.GivenUp(e.Node) })
		}
		r.settled(e.Node)
	case e.Type == event.TypeFailure && e.Cause == event.CauseDisk:
		// Other nodes would fail too. Their journals restore all of them once there is free space.
		r.fail(&diskError{home: r.c.h.Home})
	}
	if e.Type == event.TypeLease || e.Type == event.TypeRelease {
		return
	}
	r.take(e)
	r.watched(e)
}

// take shows and records an event. r.mu is held.
func (r *recorder) take(e event.Event) {
	r.feed.Add(e)
	r.chronicle(e)
	if err := r.c.store.Record(context.WithoutCancel(r.ctx), e); err != nil {
		r.logger.Error("event not recorded", "type", e.Type, "node", e.Node, "error", err)
	}
	if r.lines != nil {
		_ = r.lines.Write(e) // a closed stdout must not end a run of several days
	}
}

// Deliver records what a worker's nodes reported. Once it returns nil, the events are durable in the database.
func (r *recorder) Deliver(ctx context.Context, worker string, d membership.Delivery, list []event.Event) error {
	if _, err := r.c.store.Deliver(ctx, store.Delivery{Run: r.c.run, Worker: worker, Outbox: d.Outbox, First: d.First, Events: list}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range list {
		if e.Type == event.TypeRelease { // placeholder for a rejected event
			continue
		}
		r.c.o.Admission.OnDelivered(e)
		r.keep.seeMember(e, r.c.o.Admission.Nodes)
		r.feed.Add(e)
		r.chronicle(e)
		if r.lines != nil {
			_ = r.lines.Write(e)
		}
		r.watched(e)
	}
	return nil
}

// chronicle logs events of the run and its nodes, except for rounds and measurements.
func (r *recorder) chronicle(e event.Event) {
	details := []any{"node", e.Node}
	switch e.Type {
	case event.TypeRunStarted:
		details = []any{"run", e.Run, "pid", os.Getpid(), "nodes", len(r.c.nodeIDs)}
	case event.TypeSpawn:
		details = append(details, "pid", e.PID)
	case event.TypeLoaded:
		details = append(details, "start_round", e.Loaded.StartRound, "replayed_rounds", e.Loaded.ReplayedRounds, "engine_pid", e.Loaded.EnginePID)
	case event.TypeJoin, event.TypeLeave, event.TypeWorker:
		details = append(details, "worker", e.Worker, "state", string(e.State), "message", e.Message)
	case event.TypeExit, event.TypeFailure, event.TypeRestart, event.TypeGiveUp:
		details = append(details, "cause", e.Cause, "message", e.Message)
	case event.TypeMemoryStep:
		details = append(details, "cause", e.MemoryStep.Cause, "phase", e.MemoryStep.Phase, "action", e.MemoryStep.Action)
	case event.TypeWarning:
		if e.Node == "" {
			return // warnings about the run itself are logged where they originate
		}
		details = append(details, "message", e.Message)
	default:
		return
	}
	r.past.Info(string(e.Type), details...)
}

func (r *recorder) loaded(e event.Event) {
	if r.ctx.Err() == nil && slices.Contains(r.c.nodeIDs, e.Node) {
		r.group.Go(func() { r.c.claims.Loaded(e.Node, e.Loaded.EnginePID) })
	}
	if r.answer != nil && slices.Contains(r.c.nodeIDs, e.Node) {
		r.answer(StopSaved)
	}
	r.settled(e.Node)
	if r.mps != nil && r.ctx.Err() == nil {
		r.group.Go(func() { r.mps.verify(r.ctx, e, slices.Index(r.c.nodeIDs, e.Node), r.Record) })
	}
}

// settled records that a node of this host has loaded, or was given up, so that no other process waits for it.
func (r *recorder) settled(node string) {
	if delete(r.loading, node); len(r.loading) > 0 {
		return
	}
	r.c.p.Turn.Release() // the nodes' memory now shows on the GPUs
	if r.ctx.Err() == nil {
		r.group.Go(debug.FreeOSMemory) // release the memory used for planning
	}
}

// watchHost starts the watches for the run's disk, database and message bus, and for the host's clock.
func (r *recorder) watchHost() {
	budget := newDiskBudget(r.c, r.Warn, r.fail)
	r.group.Go(func() { budget.serve(r.ctx) })
	r.group.Go(func() { r.watchSelf() })
	r.group.Go(func() {
		select {
		case <-r.c.store.Failed(): // stop rather than do rounds that are not recorded
			r.fail(r.c.store.Err())
		case <-r.ctx.Done():
		}
	})
	r.group.Go(func() {
		if err := r.c.transport.Tend(r.ctx, r.c.nodeIDs, r.c.shared); err != nil {
			r.logger.Error("the supervisor of the message bus has ended", "error", err)
		}
	})
}

// Warn records a warning about the run itself.
func (r *recorder) Warn(message string) {
	r.logger.Warn(message)
	r.Record(event.Event{Type: event.TypeWarning, Time: event.Now(), Message: message})
}

// selfInterval is the time between checks of the host's clock, and between debug messages about this process's
// resources.
const selfInterval = 30 * time.Second

func (r *recorder) watchSelf() {
	ticker := time.NewTicker(selfInterval)
	defer ticker.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-ticker.C:
		}
		r.mu.Lock()
		jump := r.c.clock.jump()
		r.mu.Unlock()
		if jump != "" {
			r.Warn(jump)
		}
		used := resources(r.ctx)
		r.logger.Debug("resources", "rss_bytes", used.rss, "open_files", used.files, "goroutines", runtime.NumGoroutine())
	}
}

// watchDevices starts to sample the GPUs and returns the channel of their faults.
func (r *recorder) watchDevices() <-chan launch.Fault {
	r.group.Go(func() { r.devices.serve(r.ctx) })
	return r.devices.faults
}

// watchMPS forwards the faults of MPS and makes the recorder verify that every loaded node is a client of MPS.
func (r *recorder) watchMPS(host *mps.Host) launch.Sharer {
	r.mps = &mpsSharer{host, r.c.p.Plan.PerNode.Context}
	r.group.Go(func() { forwardFaults(r.ctx, host.Faults(), r.devices.faults) })
	return r.mps
}

// Fail implements workers.Events.
func (r *recorder) Fail(why error) { r.fail(why) }

// Go implements workers.Events.
func (r *recorder) Go(work func()) { r.group.Go(work) }

// close ends the components that follow the run. The run's context must have ended.
func (r *recorder) close() {
	r.group.Wait()
	if r.c.o.Worker != nil {
		r.c.o.Worker.Settle(r.now)
	}
	r.keep.close()
	r.c.freshen(context.WithoutCancel(r.ctx), r.seen)
}
