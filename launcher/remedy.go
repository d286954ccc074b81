package launcher

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// remedy is what follows the end of a life.
type remedy struct {
	cause, message string
	wait           time.Duration // before the next start
	leave          bool          // the node can't go on where it is
	memory         bool          // for want of memory
	elsewhere      bool          // it could on the CPU
	free           bool          // what it had is free for the others
}

// forgive begins to count anew.
func (n *node) forgive() {
	spec := n.swarm.spec
	n.failures = supervise.NewFailures(spec.Restarts, rand.Float64)
	n.memory = newMemoryDeaths(spec.Crowded)
}

// remedy decides what to do after a life that ended otherwise than it should. It returns early when ctx ends.
func (n *node) remedy(ctx context.Context, l *life) remedy {
	spec, v := n.swarm.spec, l.verdict
	r := remedy{cause: v.Cause, message: v.Message, free: true}
	if l.survives.Load() {
		r.leave, r.free = true, false
		return r
	}
	settle := spec.FaultSettle
	if spec.Faults == nil || !n.room.isGPU() {
		settle = 0
	}
	if l.outage.strikes(ctx, settle) { // whatever the process said: it was not its fault
		r.cause, r.message = event.CauseDevice, l.outage.message
		if lost, err := l.outage.await(ctx); err == nil && lost != "" {
			r.message, r.leave, r.elsewhere, r.free = lost, true, true, false
		}
		return r
	}
	if outOfMemory(v.Cause) {
		crowded := l.crowdedOut()
		r.memory, r.elsewhere, r.free = true, v.Cause == event.CauseOutOfMemory, !crowded
		wait, again := n.memory.add(crowded, l.rounds, l.healthy)
		if crowded || !again {
			r.wait, r.leave = wait, !again
			return r
		}
	}
	wait, again := n.failures.Add(l.healthy)
	r.wait, r.leave = wait, !v.Heals || !again
	return r
}

// fallBack moves a node that can't go on where it is to the CPU, if that is allowed and helps.
func (n *node) fallBack(l *life, next *remedy) bool {
	if !n.swarm.spec.CPUFallback || !next.elsewhere || !n.room.isGPU() {
		return false
	}
	if next.memory {
		n.swarm.emit(n.start.Node, l.memoryStep(event.ActionCPU))
	}
	n.room.leave(n, next.free, n.swarm.spec.Sharer == nil)
	n.toCPU()
	n.forgive()
	next.wait = 0
	next.message += "; it goes on, on the CPU"
	return true
}

// giveUp takes the node out of the swarm and shares what it leaves among the others of its room.
func (n *node) giveUp(l *life, next remedy) {
	if next.memory {
		n.swarm.emit(n.start.Node, l.memoryStep(event.ActionShed))
	}
	n.swarm.emit(n.start.Node, event.Event{Type: event.TypeGiveUp, Cause: next.cause, Message: next.message})
	n.swarm.giveUp(n)
	n.room.leave(n, next.free, n.swarm.spec.Sharer == nil)
}
