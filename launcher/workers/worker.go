package workers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// Worker is this host's part in another host's swarm. It gets the configuration from the coordinator, and reports
// its nodes' events through an outbox on disk. Otherwise its run is like any other, with its own folder, database
// and live view.
type Worker struct {
	uplink       membership.Uplink
	welcome      membership.Welcome
	credentials  membership.Credentials
	to           protocol.Exchange
	nodeName     string // requested with --node-id
	generateOnly bool
	process      string // identifies this process to the coordinator

	outbox      *membership.Outbox
	assignments []membership.NodeAssignment
	full        bool // the last write to the outbox failed
	logger      *slog.Logger

	mu       sync.Mutex
	roster   []protocol.Member
	changed  chan struct{}
	progress map[string]membership.Progress
	order    []string
	stop     context.CancelFunc
	no       *membership.Refusal // why the coordinator shut this host out; nil: it has not
	serving  sync.WaitGroup
	client   *membership.DeliveryClient
}

// LocalName returns the name of this host's part of a run in its own database. It must differ from the
// coordinator's names, because both may use the same home.
func (w *Worker) LocalName() string {
	name := w.welcome.Run + "." + w.credentials.Worker
	if len(name) > 60 { // an experiment's name may have 64 bytes
		sum := sha256.Sum256([]byte(name))
		name = name[:50] + "." + hex.EncodeToString(sum[:4])
	}
	return name
}

// OutboxDir returns the outbox in the folder of a worker's run.
func OutboxDir(run string) string { return filepath.Join(run, "outbox") }

// Open opens the outbox in the run's folder.
func (w *Worker) Open(dir string, logger *slog.Logger) (Transport, error) {
	var err error
	w.logger = logger
	w.outbox, err = membership.OpenOutbox(OutboxDir(dir), logger)
	return &workerTransport{w.to}, err
}

// Wanted describes the nodes that a worker brings.
type Wanted struct {
	Device string // training device, for people
	Model  string
	Nodes  int
	Held   []Held // nodes of a resumed run, in order
}

// Held is a node that this host already had in the run.
type Held struct {
	Node   string
	Rounds int // rounds done, at least 1
}

// Join requests assignments for this host's nodes and returns the nodes' names.
func (w *Worker) Join(ctx context.Context, wanted Wanted) ([]string, error) {
	join := membership.Join{Protocol: membership.Protocol, Run: w.welcome.Run, Device: wanted.Device}
	for i := range wanted.Nodes {
		info := membership.NodeInfo{Model: wanted.Model, GenerateOnly: w.generateOnly}
		switch {
		case i < len(wanted.Held):
			info.Name, info.Rounds = wanted.Held[i].Node, wanted.Held[i].Rounds
		case w.nodeName != "" && wanted.Nodes == 1:
			info.Name = w.nodeName
		case w.nodeName != "":
			info.Name = fmt.Sprintf("%s_%d", w.nodeName, i)
		}
		join.Nodes = append(join.Nodes, info)
	}
	answer, err := w.uplink.Join(ctx, join)
	if err != nil {
		return nil, fmt.Errorf("join run %s: %w", w.welcome.Run, err)
	}
	if len(answer.Assignments) != len(join.Nodes) {
		return nil, fmt.Errorf("join run %s: requested nodes: %d, assigned: %d", w.welcome.Run, len(join.Nodes), len(answer.Assignments))
	}
	w.assignments, w.roster, w.changed = answer.Assignments, answer.Roster.Members, make(chan struct{})
	w.progress = map[string]membership.Progress{}
	for _, s := range w.assignments {
		w.order = append(w.order, s.Node)
		w.progress[s.Node] = membership.Progress{Node: s.Node, Round: max(s.From, s.Recorded), State: event.StateQueued}
	}
	return w.order, nil
}

// Assign turns a node's start into one in the other host's run. The node reports again what either database lacks:
// each may have lost the last half second before a crash.
func (w *Worker) Assign(start *protocol.Start) {
	s := w.assignments[start.Index]
	start.Run, start.From, start.Recorded = w.welcome.Run, s.From, min(start.Recorded, s.Recorded)
	start.Evaluated = slices.DeleteFunc(start.Evaluated, func(round int) bool { return !slices.Contains(s.Evaluated, round) })
	start.GenerateOnly = w.generateOnly
	start.Members, _ = w.Members()
}

// Members returns the swarm's members as the coordinator last reported them, and a channel that is closed when they
// change.
func (w *Worker) Members() ([]protocol.Member, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.roster, w.changed
}

// enter records in the local database at which rounds the nodes start.
func (w *Worker) enter(record func(event.Event)) {
	for _, s := range w.assignments {
		record(event.Event{Type: event.TypeJoin, Time: event.Now(), Node: s.Node, RoundIndex: s.From,
			Message: "in run " + w.welcome.Run})
	}
}

// Start starts to report events and to follow the roster. Settle ends both.
func (w *Worker) Start(ctx context.Context, events Events, logger *slog.Logger) {
	w.logger = logger
	w.enter(events.Record)
	w.client = &membership.DeliveryClient{
		Uplink: w.uplink, Outbox: w.outbox, Run: w.welcome.Run, Process: w.process, Silence: w.patience(0), Logger: logger,
		Progress: w.progresses,
		Members: func(members []protocol.Member) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.roster = members
			close(w.changed)
			w.changed = make(chan struct{})
		},
		Ended: func(state, message string) {
			events.Fail(&EndedError{State: state, Message: message})
		},
		Trouble: func(err error) { events.Warn(err.Error()) },
	}
	if w.to.Kind == protocol.ExchangeDir {
		w.client.Interval = sharedir.BeatEvery
	}
	// The last events of the nodes are delivered after ctx has ended.
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	w.serving.Go(func() {
		var refusal *membership.Refusal
		if err := w.client.Serve(ctx); errors.As(err, &refusal) {
			w.mu.Lock()
			w.no = refusal
			w.mu.Unlock()
			events.Fail(err)
		} else if err != nil && ctx.Err() == nil {
			events.Warn("events are no longer sent to the coordinator: " + err.Error())
		}
	})
}

func (w *Worker) progresses() []membership.Progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []membership.Progress
	for _, node := range w.order {
		list = append(list, w.progress[node])
	}
	return list
}

// Observe puts the nodes' events into the outbox.
func (w *Worker) Observe(e event.Event) {
	if e.Node != "" {
		w.mu.Lock()
		p := w.progress[e.Node]
		p.Node = e.Node
		switch e.Type {
		case event.TypeState:
			p.State = e.State
			if e.State != event.StateQueued && e.State != event.StateLoading {
				p.Round = e.RoundIndex
			}
		case event.TypeRound:
			p.Round = max(p.Round, e.Round.Round+1)
		case event.TypeGiveUp:
			p.State = event.StateGivenUp
		}
		w.progress[e.Node] = p
		w.mu.Unlock()
	}
	switch e.Type {
	case event.TypeLease, event.TypeRelease, event.TypeJoin, event.TypeLeave, event.TypeWorker, event.TypeRunStarted, event.TypeRunEnded, event.TypeDevice:
		return
	}
	if e.Node == "" {
		return // only of interest on this host
	}
	e.Run, e.Worker = w.welcome.Run, w.credentials.Worker
	if err := w.outbox.Append(e); err != nil && !w.full {
		// When the run continues, its nodes report the rounds again from their journals.
		w.full = true
		w.logger.Warn("events cannot be stored for the coordinator", "error", err)
	} else if err == nil {
		w.full = false
	}
}

// lastWords is the maximum time that a slow connection to the coordinator may delay the end of a run.
const lastWords = 20 * time.Second

// patience returns how long to wait for the coordinator. A folder needs time for its synchronization.
func (w *Worker) patience(network time.Duration) time.Duration {
	if w.to.Kind == protocol.ExchangeDir {
		return max(network, sharedir.SilentAfter)
	}
	return network
}

// Settle delivers the remaining events, as far as the coordinator is reachable, and leaves the run. Closing now
// cuts it short.
func (w *Worker) Settle(now <-chan struct{}) {
	if w.client == nil {
		return
	}
	ctx, end := interrupt.WithLimit(context.Background(), w.patience(lastWords), now)
	defer end()
	if err := w.client.Drain(ctx); err != nil {
		events, _ := w.outbox.Pending()
		w.logger.Warn("some events are not delivered yet: they are stored and sent when the same command runs again", "events", events, "error", err)
	}
	w.stop()
	w.serving.Wait()
}

// briefly is the maximum time that a failed command spends on reporting that it leaves.
const briefly = 2 * time.Second

// Close closes the worker. Without Settle, it reports that it leaves if the coordinator answers soon.
func (w *Worker) Close() {
	if w.outbox != nil {
		if err := w.outbox.Close(); err != nil {
			w.logger.Warn("outbox not closed cleanly", "error", err)
		}
	}
	if w.uplink != nil {
		if w.client == nil { // its hello occupies a slot, and this frees the slot before the silence limit
			ctx, cancel := context.WithTimeout(context.Background(), briefly)
			defer cancel()
			_, _ = w.uplink.Beat(ctx, membership.Beat{Protocol: membership.Protocol, Run: w.welcome.Run, Process: w.process, Time: event.Now(), Left: true})
		}
		_ = w.uplink.Close() // the process ends anyway
	}
}

// Config returns the coordinator's configuration as received. The worker's own configuration is validated later
// like any other.
func (w *Worker) Config() (configs.Config, error) {
	c := configs.Default()
	if err := json.Unmarshal(w.welcome.Config, &c); err != nil {
		return c, fmt.Errorf("the coordinator's configuration can't be read: %w", err)
	}
	return c, nil
}
