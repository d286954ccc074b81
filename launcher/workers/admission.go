package workers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// Admission lets other hosts' nodes into a run. It decides who may join, and handles what they send.
type Admission struct {
	options    Options
	registry   *membership.Registry // nil with a folder, where file access decides
	server     *membership.AdmissionServer
	transport  hostTransport
	home       layout.Home
	run        Run          // since Start
	invitation string       // the command to type elsewhere
	ending     atomic.Bool  // a worker's node has reported that it has done all its rounds
	pace       atomic.Int64 // nanoseconds of the last round on this host
}

// Options configure how other hosts reach this one. At most one of Listen, NATS and Shared is set.
type Options struct {
	// host:port to listen on with TLS; comma-separated hosts under which others reach it (empty: its addresses)
	Listen, Advertise string
	Cert, Key         string // files with the user's own certificate and key
	NATS, Credentials string // comma-separated URLs of a cluster; its credentials file
	Shared            string // a synced folder
	Compat            bool   // with Shared: also write files that rl-swarm's nodes read

	NATSFile    string // a file with the value of NATS
	Predecessor bool   // Shared comes from GDRIVE_PATH
}

// NewAdmission returns an Admission that admits no worker before Open and Start.
func NewAdmission(o Options) *Admission { return &Admission{options: o} }

// Start admits workers until ctx ends. The run must be recorded, and events must be ready.
func (a *Admission) Start(ctx context.Context, run Run, events Events, logger *slog.Logger) error {
	a.run = run
	if err := a.open(ctx, events, logger); err != nil {
		return err
	}
	a.serve(ctx, events, logger)
	return nil
}

// open creates the admission server from the recorded members.
func (a *Admission) open(ctx context.Context, events Events, logger *slog.Logger) error {
	known, err := a.run.Reader.Members(ctx, a.run.Name)
	if err != nil {
		return err
	}
	var before []membership.KnownMember
	for _, m := range known {
		if m.Worker != "" {
			before = append(before, membership.KnownMember{Node: m.Node, Worker: m.Worker, From: m.From})
		}
	}
	a.server, err = membership.NewAdmissionServer(membership.AdmissionOptions{
		Run: a.run.Name, Experiment: a.run.Config.Experiment, Version: a.run.Version, Config: a.run.Document, Cfg: a.run.Config,
		Inputs: a.run.Inputs, Local: protocol.Members(a.run.Nodes...), Rounds: a.run.Config.Rounds, Registry: a.registry, Trusted: a.registry == nil,
		Store: a.transport.store,
		Deliver: func(ctx context.Context, worker string, d membership.Delivery, list []event.Event) error {
			return events.Deliver(ctx, worker, d, list)
		},
		Acked: func(ctx context.Context, worker, outbox string) (int64, error) {
			return a.run.Reader.Delivered(ctx, a.run.Name, worker, outbox)
		},
		Recorded: func(ctx context.Context) (map[string]int, map[string][]int, error) {
			recorded, err := a.run.Reader.Recorded(ctx, a.run.Name)
			if err != nil {
				return nil, nil, err
			}
			evaluated, err := a.run.Reader.Evaluated(ctx, a.run.Name)
			return recorded, evaluated, err
		},
		Report: events.Record, Keep: a.run.Store.Flush, Expel: a.disconnect, Now: time.Now, Logger: logger,
	}, before)
	if err != nil {
		return err
	}
	if folder, ok := a.transport.(*folderTransport); ok {
		return sharedir.Announce(folder.dir, membership.Welcome{
			Protocol: membership.Protocol, Run: a.run.Name, Experiment: a.run.Config.Experiment, Config: a.run.Document, Inputs: a.run.Inputs,
			Version: a.run.Version, Time: event.Now(),
		})
	}
	return nil
}

// disconnect closes the connections of a worker that has lost its access.
func (a *Admission) disconnect(worker string) {
	if bus, ok := a.transport.(*busTransport); ok {
		bus.server.Disconnect(worker)
	}
}

// serve answers workers until ctx ends.
func (a *Admission) serve(ctx context.Context, events Events, logger *slog.Logger) {
	events.Go(func() { a.server.Serve(ctx) })
	events.Go(func() {
		if err := a.transport.serve(ctx, a.server); err != nil && ctx.Err() == nil {
			events.Warn("workers can no longer join or deliver: " + err.Error())
		}
	})
	events.Go(func() { a.book(ctx, logger) })
	if folder, ok := a.transport.(*folderTransport); ok {
		events.Go(func() { a.snapshots(ctx, folder, logger) })
		events.Go(func() { a.foreigners(ctx, folder, logger) })
	}
}

// Others returns the workers' nodes. It leaves out this host's own nodes: they always wait for each other, even if
// the admission server reports them as absent. That way equal seeds give equal results.
func (a *Admission) Others() ([]protocol.Member, <-chan struct{}) {
	members, changed := a.server.Members()
	return slices.DeleteFunc(slices.Clone(members), func(m protocol.Member) bool { return slices.Contains(a.run.Nodes, m.Node) }), changed
}

// Nodes returns the states of all workers' nodes that have taken part in the run.
func (a *Admission) Nodes() []membership.NodeStatus { return a.server.Nodes() }

// OnDelivered follows the events that workers deliver. They only make the coordinator check its database.
func (a *Admission) OnDelivered(e event.Event) {
	last := e.Type == event.TypeRound && e.Round != nil && e.Round.Round >= a.run.Config.Rounds-1
	if last || e.Type == event.TypeState && e.State == event.StateDone {
		a.ending.Store(true)
	}
}

// Observe follows the events of this host's nodes.
func (a *Admission) Observe(e event.Event) {
	switch {
	case e.Worker != "" || e.Node == "":
	case e.Type == event.TypeState:
		a.server.Progress(e.Node, e.RoundIndex)
		if e.State == event.StateBarrier {
			a.server.Waits(e.Node, e.RoundIndex)
		}
	case e.Type == event.TypeRound && !e.Replayed:
		a.server.Progress(e.Node, e.Round.Round+1)
		a.pace.Store(int64(e.Round.StepTime * float64(time.Second)))
	case e.Type == event.TypeGiveUp:
		a.server.Lost(e.Node)
	}
}

// farewell is the time that workers have to learn of the end and deliver the rest, over a network.
const farewell = 30 * time.Second

// Settle waits for workers' nodes after this host's own are done, at most barrier_deadline. It waits for nodes in
// step, which are about a round behind at a barrier, and for nodes that can finish within the deadline. Folder
// status lags: a node shown rounds behind may already be finished. Other nodes may be far behind. They are told to
// stop, because waiting for them would keep a paid GPU idle.
func (a *Admission) Settle(ctx context.Context, logger *slog.Logger) error {
	config := a.run.Config
	if config.Async() {
		return nil
	}
	patience := units.Seconds(config.BarrierDeadline)
	soon := func(n membership.NodeStatus) bool {
		return doneSoon(n, config.Rounds, time.Duration(a.pace.Load()), patience)
	}
	if nodes := a.working(soon); nodes > 0 {
		logger.Info("waiting for the workers' last rounds", "nodes", nodes, "at_most", patience)
	}
	ticker := time.NewTicker(settleInterval)
	defer ticker.Stop()
	for end := time.Now().Add(patience); a.working(soon) > 0 && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return fmt.Errorf("run stopped: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
	return nil
}

// doneSoon reports whether a node is in step, or will be done within patience at the pace of the last round on this
// host; pace 0: unknown.
func doneSoon(n membership.NodeStatus, rounds int, pace, patience time.Duration) bool {
	return !n.Absent || pace > 0 && float64(rounds-n.Round)*pace.Seconds() <= patience.Seconds()
}

// settleInterval is the time between checks of whether the workers are done.
const settleInterval = 200 * time.Millisecond

// working returns how many nodes of connected workers still have rounds to do, among those that counts selects.
func (a *Admission) working(counts func(membership.NodeStatus) bool) (nodes int) {
	for _, w := range a.server.Workers() {
		for _, n := range w.Nodes {
			if w.State == event.WorkerConnected && n.State != event.StateDone && n.State != event.StateGivenUp && counts(n) {
				nodes++
			}
		}
	}
	return nodes
}

// silence returns how long a worker may be silent before it counts as gone.
func (a *Admission) silence() time.Duration {
	if _, folder := a.transport.(*folderTransport); folder {
		return sharedir.SilentAfter
	}
	return membership.SilentAfter
}

// Dismiss tells workers how the run ended, and waits until they have left or now is closed.
func (a *Admission) Dismiss(ctx context.Context, now <-chan struct{}, state, message string, logger *slog.Logger) {
	a.server.End(state, message)
	patience := max(farewell, a.silence())
	ctx, end := interrupt.WithLimit(ctx, patience, now)
	defer end()
	if err := a.server.Settled(ctx, patience); err != nil {
		logger.Warn("some workers did not leave cleanly: they keep their undelivered events and deliver them when the run continues", "error", err)
	}
}
