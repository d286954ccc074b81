package launcher

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sapo-swarm/swarm/launcher/lease"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// LogFileName is a node's log in its folder.
const LogFileName = "log.txt"

// node is one place in the swarm; its process may change.
type node struct {
	swarm  *swarm
	index  int
	start  event.Start
	turn   *lease.Ticket // for loading
	grants sync.WaitGroup

	sendMu sync.Mutex
	child  *supervise.Child // the one that has its start command; nil between lives
}

// serve keeps the node alive until it is done, stopped or given up.
func (n *node) serve(ctx context.Context) NodeResult {
	s := n.swarm
	failures := supervise.NewFailures(s.spec.Restarts, rand.Float64)
	result := NodeResult{Node: n.start.Node}
	for {
		verdict, healthy := n.live(ctx)
		result.State, result.Cause, result.Message = verdict.State, verdict.Cause, verdict.Message
		if verdict.State == event.StateDone || ctx.Err() != nil {
			return result
		}
		wait, again := failures.Add(healthy)
		if !verdict.Heals || !again {
			result.State = event.StateGivenUp
			s.emit(n.start.Node, event.Event{Type: event.TypeGiveUp, Cause: verdict.Cause, Message: verdict.Message})
			s.giveUp(n)
			return result
		}
		s.emit(n.start.Node, event.Event{Type: event.TypeRestart, Message: verdict.Message, Cause: verdict.Cause, Seconds: wait.Seconds()})
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			result.State, result.Cause = event.StateStopped, event.CauseStopped
			return result
		case <-timer.C:
		}
		result.Restarts++
		var err error
		if n.turn, err = s.loading.Request(lease.Key{Node: n.start.Node}, 1); err != nil {
			result.State, result.Cause, result.Message = event.StateGivenUp, event.CauseUnknown, err.Error()
			return result
		}
	}
}

// life is one process of a node, as its events change it.
type life struct {
	child   *supervise.Child
	spawned chan struct{} // closed when child is set and its spawn event is out
	loaded  chan struct{} // closed at the loaded event
	isUp    atomic.Bool
	upSince atomic.Int64 // Unix nanoseconds of the loaded event
	heard   atomic.Int64 // Unix nanoseconds of the last event
}

// live runs one process from its turn to load to its end. It returns what the end means and how long the process ran well.
func (n *node) live(ctx context.Context) (supervise.Verdict, time.Duration) {
	s, name := n.swarm, n.start.Node
	turn := lease.Key{Node: name}
	defer s.loading.Release(turn)
	s.emit(name, event.Event{Type: event.TypeState, State: event.StateQueued})
	if err := n.turn.Wait(ctx); err != nil {
		return supervise.Verdict{State: event.StateStopped, Cause: event.CauseStopped, Message: "stopped before it was started"}, 0
	}
	l := &life{spawned: make(chan struct{}), loaded: make(chan struct{})}
	child, err := supervise.Start(supervise.Process{
		Path: s.spec.Exe, Args: s.spec.Args,
		Env:     slices.Concat(os.Environ(), s.spec.Env, s.spec.Plan.Environment(n.index)),
		LogPath: filepath.Join(n.start.Dir, LogFileName), LogLimit: s.spec.LogLimit,
		PIDPath: filepath.Join(n.start.Dir, supervise.PIDFileName),
	}, func(e event.Event) { n.handle(l, e) })
	if err != nil {
		return notStarted(err), 0
	}
	l.child = child
	s.emit(name, event.Event{Type: event.TypeSpawn, PID: child.PID()})
	close(l.spawned)

	n.command(child)
	unkillable := n.watch(ctx, l, func() { s.loading.Release(turn) })

	n.sendMu.Lock()
	n.child = nil
	n.sendMu.Unlock()
	if unkillable != nil {
		s.computing.ReleaseAll(name)
		return supervise.Verdict{State: event.StateFailed, Cause: event.CauseStalled, Message: unkillable.Error()}, 0
	}
	s.computing.ReleaseAll(name) // after Done no event can ask for more
	n.grants.Wait()
	exit := child.Exit()
	verdict := exit.Verdict()
	s.emit(name, event.Event{Type: event.TypeExit, PID: child.PID(), Cause: verdict.Cause, Message: verdict.Message, ExitCode: &exit.Code})
	healthy := time.Duration(0)
	if l.isUp.Load() {
		healthy = time.Since(time.Unix(0, l.upSince.Load()))
	}
	return verdict, healthy
}

func notStarted(err error) supervise.Verdict {
	v := supervise.Verdict{State: event.StateFailed, Cause: event.CauseUnknown, Message: err.Error(), Heals: true}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		v.Cause, v.Heals = event.CauseConfig, false
	}
	return v
}

// command sends a fresh process its assignment. A failure shows as the process's end.
func (n *node) command(child *supervise.Child) {
	start := n.start
	if err := child.Send(event.Command{Type: event.CommandStart, Start: &start}); err != nil {
		n.swarm.logger.Debug("start command not sent", "node", start.Node, "err", err)
		return
	}
	n.sendMu.Lock()
	n.child = child
	n.sendMu.Unlock()
	if _, fewer := n.swarm.remaining(); fewer {
		n.sendPeers()
	}
}

// sendPeers tells the node, if it runs, who is left. Peers are read under the lock, so that the last command is never an old one.
func (n *node) sendPeers() {
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	if n.child == nil {
		return
	}
	peers, _ := n.swarm.remaining()
	if err := n.child.Send(event.Command{Type: event.CommandPeers, Peers: peers}); err != nil {
		n.swarm.logger.Debug("peers command not sent", "node", n.start.Node, "err", err)
	}
}

// watch waits for the process's end and brings it about when it is asked to stop, doesn't load, or falls silent. It calls loaded
// once the model is in memory, and returns an error only when the process can't be killed.
func (n *node) watch(ctx context.Context, l *life, loaded func()) error {
	spec := n.swarm.spec
	timer := time.NewTimer(spec.LoadTimeout)
	defer timer.Stop()
	up := l.loaded
	for {
		select {
		case <-l.child.Done():
			return nil
		case <-ctx.Done():
			return l.child.Stop(spec.Stop, spec.Now)
		case <-up:
			up = nil
			loaded()
			timer.Reset(spec.StallTimeout)
		case <-timer.C:
			if up != nil {
				l.child.Blame(event.CauseStalled, "its model was not loaded after "+spec.LoadTimeout.String())
				return l.child.End(spec.Stop, spec.Now)
			}
			silent := time.Since(time.Unix(0, l.heard.Load()))
			if silent < spec.StallTimeout {
				timer.Reset(spec.StallTimeout - silent)
				continue
			}
			l.child.Blame(event.CauseStalled, "no sign of life for "+spec.StallTimeout.String())
			return l.child.End(spec.Stop, spec.Now)
		}
	}
}

// handle takes one event of a process, on the goroutine that reads them.
func (n *node) handle(l *life, e event.Event) {
	<-l.spawned
	l.heard.Store(time.Now().UnixNano())
	n.swarm.emit(n.start.Node, e)
	switch e.Type {
	case event.TypeLoaded:
		if !l.isUp.Load() {
			l.upSince.Store(time.Now().UnixNano())
			l.isUp.Store(true)
			close(l.loaded)
		}
	case event.TypeLease:
		n.requestLease(l.child, *e.Lease)
	case event.TypeRelease:
		n.swarm.computing.Release(lease.Key{Node: n.start.Node, ID: e.Lease.ID})
	}
}

// requestLease queues a request and sends the grant when it is held. It must not wait: it is called by the events' reader.
func (n *node) requestLease(child *supervise.Child, request event.Lease) {
	grant := event.Command{Type: event.CommandGrant, Lease: &event.Lease{ID: request.ID, Phase: request.Phase}}
	var ticket *lease.Ticket
	if !n.swarm.unlimited {
		var err error
		ticket, err = n.swarm.computing.Request(lease.Key{Node: n.start.Node, ID: request.ID}, 1)
		if err != nil {
			n.swarm.emit(n.start.Node, event.Event{Type: event.TypeWarning, Message: "lease refused: " + err.Error()})
			return
		}
	}
	n.grants.Go(func() {
		// The ticket ends with the process (ReleaseAll), so that this wait is bounded by its life.
		if ticket != nil && ticket.Wait(context.Background()) != nil {
			return
		}
		if err := child.Send(grant); err != nil {
			n.swarm.logger.Debug("grant not sent", "node", n.start.Node, "err", err)
		}
	})
}
