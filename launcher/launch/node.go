package launch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sapo-swarm/swarm/launcher/lease"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// node is a member of the swarm. Its process may change.
type node struct {
	swarm  *swarm
	index  int
	pool   *devicePool   // changes only between attempts
	turn   *lease.Ticket // for loading
	grants sync.WaitGroup

	failures *supervise.Failures
	memory   *memoryDeaths
	cutOff   *supervise.Failures // failures to reach the exchange
	history  failureLog
	resident atomic.Int64 // bytes between phases, as last measured

	sendMu sync.Mutex
	start  protocol.Start   // for the next process; its budget may change at any time
	child  *supervise.Child // the process that has its start command; nil between attempts
}

// serve keeps the node running until it is done, stopped or given up.
func (n *node) serve(ctx context.Context) NodeResult {
	n.forgive()
	result := NodeResult{Node: n.start.Node}
	for {
		l := n.live(ctx)
		result.State, result.Cause, result.Message = l.verdict.State, l.verdict.Cause, l.verdict.Message
		if l.verdict.State == event.StateDone || ctx.Err() != nil {
			return result
		}
		next := n.remedy(ctx, l)
		if ctx.Err() != nil {
			result.State, result.Cause = event.StateStopped, event.CauseStopped
			return result
		}
		result.Cause, result.Message = next.cause, next.message
		if next.leave && !n.fallBack(l, &next) {
			result.State, result.Cause, result.Message = event.StateGivenUp, next.cause, next.message
			n.giveUp(l, next)
			return result
		}
		if !n.pause(ctx, next) {
			result.State, result.Cause = event.StateStopped, event.CauseStopped
			return result
		}
		result.Restarts++
		var err error
		if n.turn, err = n.swarm.loading.Request(lease.Key{Node: n.start.Node}, 0); err != nil {
			result.State, result.Cause, result.Message = event.StateGivenUp, event.CauseUnknown, err.Error()
			return result
		}
	}
}

// pause announces a restart and waits. It returns false if ctx has ended.
func (n *node) pause(ctx context.Context, next remedy) bool {
	n.swarm.emit(n.start.Node, event.Event{Type: event.TypeRestart, Message: next.message, Cause: next.cause, Seconds: next.wait.Seconds()})
	timer := time.NewTimer(next.wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// awaitTurn waits until the node may load and its pool is open. It returns the outage that may close the pool next.
// If the pool is lost, it returns at once with the outage that caused the loss. The error means that ctx has ended.
func (n *node) awaitTurn(ctx context.Context, turn lease.Key) (*outage, error) {
	for {
		if err := n.turn.Wait(ctx); err != nil {
			return nil, err
		}
		o := n.pool.next()
		if !o.strikes(ctx, 0) {
			return o, nil
		}
		n.swarm.loading.Release(turn) // let nodes of other pools load
		if lost, err := o.await(ctx); err != nil || lost != "" {
			return o, err
		}
		var err error
		if n.turn, err = n.swarm.loading.Request(turn, 0); err != nil {
			return nil, err
		}
	}
}

// live runs one process, from waiting for its turn to load to its end.
func (n *node) live(ctx context.Context) *attempt {
	s, name := n.swarm, n.start.Node
	turn := lease.Key{Node: name}
	defer s.loading.Release(turn)
	s.emit(name, event.Event{Type: event.TypeState, State: event.StateQueued})
	l := &attempt{spawned: make(chan struct{}), loaded: make(chan struct{})}
	var err error
	if l.outage, err = n.awaitTurn(ctx, turn); err != nil {
		s.emit(name, event.Event{Type: event.TypeState, State: event.StateStopped}) // it is no longer queued
		l.verdict = supervise.Verdict{State: event.StateStopped, Cause: event.CauseStopped, Message: "stopped before it started"}
		return l
	}
	if l.outage.strikes(ctx, 0) {
		l.verdict = supervise.Verdict{State: event.StateFailed, Cause: event.CauseDevice, Message: l.outage.message}
		return l
	}
	child, err := supervise.Start(n.process(), func(e event.Event) { n.handle(l, e) })
	if err != nil {
		l.verdict = notStarted(err)
		return l
	}
	l.child = child
	l.gotOn.mark()
	s.emit(name, event.Event{Type: event.TypeSpawn, PID: child.PID()})
	close(l.spawned)

	n.command(child)
	unkillable := n.watch(ctx, l, func() { s.loading.Release(turn) })

	n.sendMu.Lock()
	n.child = nil
	n.sendMu.Unlock()
	if unkillable != nil {
		l.survives.Store(true)
		n.pool.leases.ReleaseAll(name)
		l.verdict = supervise.Verdict{State: event.StateFailed, Cause: event.CauseStalled, Message: unkillable.Error()}
		return l
	}
	n.pool.leases.ReleaseAll(name) // after Done no event can request more
	n.grants.Wait()
	exit := child.Exit()
	l.verdict = exit.Verdict()
	s.emit(name, event.Event{Type: event.TypeExit, PID: child.PID(), Cause: l.verdict.Cause, Message: l.verdict.Message, ExitCode: &exit.Code})
	if l.isUp.Load() {
		l.healthy = l.upSince.since()
	}
	return l
}

// process returns the process to start for the node on its current pool.
func (n *node) process() supervise.Process {
	spec := n.swarm.spec
	p := supervise.Process{
		Path: spec.Exe, Args: spec.Args, Env: slices.Concat(os.Environ(), spec.Env), Files: spec.Files,
		LogPath: filepath.Join(n.start.Dir, runlog.NodeFile), LogLimit: spec.LogLimit,
		PIDPath: filepath.Join(n.start.Dir, supervise.PIDFileName), StopLimit: spec.StopLimit,
	}
	if n.pool == n.swarm.host {
		p.Env = append(p.Env, "CUDA_VISIBLE_DEVICES=") // no GPU
		return p
	}
	p.Env = append(p.Env, spec.Plan.Environment(n.index)...)
	if spec.Sharer != nil && n.pool.isGPU() {
		p.Env = append(p.Env, spec.Sharer.ClientEnv(n.index, n.budget())...)
		p.BeforeKill = spec.Sharer.BeforeKill
	}
	return p
}

func notStarted(err error) supervise.Verdict {
	v := supervise.Verdict{State: event.StateFailed, Cause: event.CauseUnknown, Message: err.Error(), Heals: true}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		v.Cause, v.Heals = event.CauseConfig, false
	}
	return v
}

// command sends a new process its assignment. A failure shows as the process's end.
func (n *node) command(child *supervise.Child) {
	if n.assign(child) {
		if _, changed := n.swarm.members(); changed {
			n.sendMembers()
		}
	}
}

// assign sends the start command under the lock, so that a changed budget is sent with it or after it.
func (n *node) assign(child *supervise.Child) bool {
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	start := n.start
	if n.swarm.spec.Verdicts != nil {
		verdicts, _ := n.swarm.spec.Verdicts()
		start.Verdicts = &verdicts
	}
	if err := child.Send(protocol.Command{Type: protocol.CommandStart, Start: &start}); err != nil {
		n.swarm.logger.Debug("start command not sent", "node", start.Node, "err", err)
		return false
	}
	n.child = child
	return true
}

// sendMembers sends the list of members to the node if it is running. It reads the list under the lock, so that the
// last command is always the newest.
func (n *node) sendMembers() {
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	if n.child == nil {
		return
	}
	members, _ := n.swarm.members()
	if err := n.child.Send(protocol.Command{Type: protocol.CommandMembers, Members: members}); err != nil {
		n.swarm.logger.Debug("members command not sent", "node", n.start.Node, "err", err)
	}
}

// sendVerdicts sends the alarm's decisions to the node if it is running. It reads them under the lock, so that the last
// command is always the newest.
func (n *node) sendVerdicts() {
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	if n.child == nil {
		return
	}
	verdicts, _ := n.swarm.spec.Verdicts()
	if err := n.child.Send(protocol.Command{Type: protocol.CommandVerdict, Verdicts: &verdicts}); err != nil {
		n.swarm.logger.Debug("verdicts not sent", "node", n.start.Node, "err", err)
	}
}

// secondLook is the time that a process that seems stuck still has to report. Events from a time when this program
// itself was suspended are read first.
const secondLook = 2 * time.Second

// watch waits for the process's end. It ends the process if ctx ends, if it does not load, falls silent or is
// condemned, or if its pool has an outage. It calls loaded once the model is in memory. It returns an error only if
// the process cannot be killed.
func (n *node) watch(ctx context.Context, l *attempt, loaded func()) error {
	spec := n.swarm.spec
	timer := time.NewTimer(spec.LoadTimeout)
	defer timer.Stop()
	up, looked := l.loaded, false
	for {
		select {
		case <-l.child.Done():
			return nil
		case <-ctx.Done():
			return l.child.Stop(spec.Stop, spec.Now)
		case <-l.child.Condemned():
			return l.child.End(ctx, spec.Stop, spec.Now)
		case <-l.outage.begun:
			l.child.Blame(event.CauseDevice, l.outage.message)
			return l.child.End(ctx, spec.Stop, spec.Now)
		case <-up:
			up, looked = nil, false
			loaded()
			timer.Reset(spec.StallTimeout)
		case <-timer.C:
			switch left, message := l.left(spec); {
			case left > 0:
				looked = false
				timer.Reset(left)
			case !looked:
				looked = true
				timer.Reset(min(secondLook, spec.StallTimeout/4))
			default:
				l.child.Blame(event.CauseStalled, message)
				return l.child.End(ctx, spec.Stop, spec.Now)
			}
		}
	}
}
