package main

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
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

// joined is this host's part in another host's swarm: what it trains it takes from there, and what its nodes do it reports there, through an
// outbox on disk. Beside that its run is as any: with a folder, a database and a live view of its own.
type joined struct {
	uplink       membership.Uplink
	welcome      membership.Welcome
	credentials  membership.Credentials
	to           event.Exchange
	nodeName     string // wished for by --node-id
	generateOnly bool
	process      string // names this process to the coordinator

	outbox *membership.Outbox
	seats  []membership.Seat
	deaf   bool            // the outbox took nothing of late
	now    <-chan struct{} // closed when the process is to end at once; nil: never
	logger *slog.Logger

	mu       sync.Mutex
	roster   []event.Member
	changed  chan struct{}
	progress map[string]membership.Progress
	order    []string
	stop     context.CancelFunc
	no       *membership.Refusal // why the coordinator won't have this host any more; nil: it does
	serving  sync.WaitGroup
	courier  *membership.Courier
}

// localName names this host's part of a run in its own database: experiment and run there must not be those of the coordinator, which may have
// the same home.
func (j *joined) localName() string {
	name := j.welcome.Run + "." + j.credentials.Worker
	if len(name) > 60 { // an experiment's name may have 64
		sum := sha256.Sum256([]byte(name))
		name = name[:50] + "." + hex.EncodeToString(sum[:4])
	}
	return name
}

// outboxDir is where, in the folder of a run, a worker keeps what it has to report.
func outboxDir(run string) string { return filepath.Join(run, "outbox") }

// open opens the outbox, in the run's folder.
func (j *joined) open(_ context.Context, c *coordinator) (way, error) {
	var err error
	j.logger = c.g.logger
	j.outbox, err = membership.OpenOutbox(outboxDir(c.dir), c.g.logger)
	return &workersWay{j.to}, err
}

// take asks for this host's seats.
func (j *joined) take(ctx context.Context, c *coordinator) ([]string, error) {
	join := membership.Join{Protocol: membership.Protocol, Run: j.welcome.Run, Device: deviceName(c.p)}
	var held []store.Node
	if c.resume.run != nil {
		snapshot, err := c.reader.Snapshot(ctx, c.run)
		if err != nil {
			return nil, err
		}
		held = snapshot.Nodes
	}
	for i := range c.p.plan.Nodes {
		info := membership.NodeInfo{Model: c.p.model.Name, GenerateOnly: j.generateOnly}
		switch {
		case i < len(held):
			info.Name, info.Rounds = held[i].Node, max(1, c.resume.done(held[i], 0))
		case j.nodeName != "" && c.p.plan.Nodes == 1:
			info.Name = j.nodeName
		case j.nodeName != "":
			info.Name = fmt.Sprintf("%s_%d", j.nodeName, i)
		}
		join.Nodes = append(join.Nodes, info)
	}
	answer, err := j.uplink.Join(ctx, join)
	if err != nil {
		return nil, fmt.Errorf("join run %s: %w", j.welcome.Run, err)
	}
	if len(answer.Seats) != len(join.Nodes) {
		return nil, fmt.Errorf("join run %s: asked for %d seats, got %d", j.welcome.Run, len(join.Nodes), len(answer.Seats))
	}
	j.seats, j.roster, j.changed = answer.Seats, answer.Roster.Members, make(chan struct{})
	j.progress = map[string]membership.Progress{}
	for _, s := range j.seats {
		j.order = append(j.order, s.Node)
		j.progress[s.Node] = membership.Progress{Node: s.Node, Round: max(s.From, s.Recorded), State: event.StateQueued}
	}
	return j.order, nil
}

// deviceName is what the nodes train on, for people.
func deviceName(p planned) string {
	for _, g := range p.plan.GPUs {
		return g.Name
	}
	return p.plan.Device
}

// seat makes an assignment one in the other host's run. The node tells again what either database lacks: each may have lost the last half second
// before a crash.
func (j *joined) seat(start *event.Start) {
	s := j.seats[start.Index]
	start.Run, start.From, start.Recorded = j.welcome.Run, s.From, min(start.Recorded, s.Recorded)
	start.Evaluated = slices.DeleteFunc(start.Evaluated, func(round int) bool { return !slices.Contains(s.Evaluated, round) })
	start.GenerateOnly = j.generateOnly
	start.Members, _ = j.members()
}

// members are the swarm as the coordinator last told, and a channel that is closed when that changes.
func (j *joined) members() ([]event.Member, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.roster, j.changed
}

// enter tells the local database where the nodes begin.
func (j *joined) enter(take func(event.Event)) {
	for _, s := range j.seats {
		take(event.Event{Type: event.TypeJoin, Time: event.Now(), Node: s.Node, RoundIndex: s.From,
			Message: "in run " + j.welcome.Run})
	}
}

// serve begins to report and to follow the roster. settle ends it.
func (j *joined) serve(ctx context.Context, events *recorder, logger *slog.Logger) {
	j.logger = logger
	j.enter(events.take)
	j.courier = &membership.Courier{
		Uplink: j.uplink, Outbox: j.outbox, Run: j.welcome.Run, Process: j.process, Silence: j.patience(0), Logger: logger,
		Progress: j.whereabouts,
		Members: func(members []event.Member) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.roster = members
			close(j.changed)
			j.changed = make(chan struct{})
		},
		Ended: func(state, message string) {
			events.fail(&overError{state, message})
		},
		Trouble: func(err error) { events.warn(err.Error()) },
	}
	if j.to.Kind == event.ExchangeDir {
		j.courier.Interval = sharedir.BeatEvery
	}
	// The nodes' last words are delivered after ctx has ended.
	ctx, j.stop = context.WithCancel(context.WithoutCancel(ctx))
	j.serving.Go(func() {
		var refusal *membership.Refusal
		if err := j.courier.Serve(ctx); errors.As(err, &refusal) {
			j.mu.Lock()
			j.no = refusal
			j.mu.Unlock()
			events.fail(err)
		} else if err != nil && ctx.Err() == nil {
			events.warn("nothing is reported to the coordinator any more: " + err.Error())
		}
	})
}

func (j *joined) whereabouts() []membership.Progress {
	j.mu.Lock()
	defer j.mu.Unlock()
	var list []membership.Progress
	for _, node := range j.order {
		list = append(list, j.progress[node])
	}
	return list
}

// see puts what the nodes tell into the outbox.
func (j *joined) see(e event.Event) {
	if e.Node != "" {
		j.mu.Lock()
		p := j.progress[e.Node]
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
		j.progress[e.Node] = p
		j.mu.Unlock()
	}
	switch e.Type {
	case event.TypeLease, event.TypeRelease, event.TypeJoin, event.TypeLeave, event.TypeWorker, event.TypeRunStarted, event.TypeRunEnded, event.TypeDevice:
		return
	}
	if e.Node == "" {
		return // this host's own affair
	}
	e.Run, e.Worker = j.welcome.Run, j.credentials.Worker
	if err := j.outbox.Append(e); err != nil && !j.deaf {
		// Rounds are told again out of the journals when the run goes on.
		j.deaf = true
		j.logger.Warn("what happens here can't be kept for the coordinator", "error", err)
	} else if err == nil {
		j.deaf = false
	}
}

// lastWords is how long the end of a run may be held up by the way to the coordinator.
const lastWords = 20 * time.Second

// patience is how long to wait for the coordinator: what goes through a folder takes as long as that takes to be synced.
func (j *joined) patience(network time.Duration) time.Duration {
	if j.to.Kind == event.ExchangeDir {
		return max(network, sharedir.SilentAfter)
	}
	return network
}

// settle delivers what is left, as far as the coordinator can be reached, and takes leave.
func (j *joined) settle() {
	if j.courier == nil {
		return
	}
	ctx, end := interrupt.WithLimit(context.Background(), j.patience(lastWords), j.now)
	defer end()
	if err := j.courier.Drain(ctx); err != nil {
		events, _ := j.outbox.Pending()
		j.logger.Warn("not all is delivered: it is kept, and goes out when the same command goes on", "events", events, "error", err)
	}
	j.stop()
	j.serving.Wait()
}

// briefly is how long a command that failed tries to take leave.
const briefly = 2 * time.Second

func (j *joined) close() {
	if j.outbox != nil {
		if err := j.outbox.Close(); err != nil {
			j.logger.Warn("outbox not closed in order", "error", err)
		}
	}
	if j.uplink != nil {
		if j.courier == nil { // its hello took a place, which is free at once rather than after a silence
			ctx, cancel := context.WithTimeout(context.Background(), briefly)
			defer cancel()
			_, _ = j.uplink.Beat(ctx, membership.Beat{Protocol: membership.Protocol, Run: j.welcome.Run, Process: j.process, Time: event.Now(), Left: true})
		}
		_ = j.uplink.Close() // the process ends
	}
}

// config is the coordinator's as it came; what a worker makes of it is checked like any (resolveJoined).
func (j *joined) config() (configs.Config, error) {
	c := configs.Default()
	if err := json.Unmarshal(j.welcome.Config, &c); err != nil {
		return c, fmt.Errorf("the coordinator's configuration can't be read: %w", err)
	}
	return c, nil
}
