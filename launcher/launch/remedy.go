package launch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// remedy is the decision after the end of an attempt.
type remedy struct {
	cause, message string
	wait           time.Duration // before the next start
	leave          bool          // the node cannot continue on its pool
	spent          bool          // it has failed too often
	memory         bool          // memory ran out
	elsewhere      bool          // the node could continue on the CPU
	free           bool          // the node's memory is free for the others
}

// forgive resets the failure counts.
func (n *node) forgive() {
	spec := n.swarm.spec
	n.failures = supervise.NewFailures(spec.Restarts, rand.Float64)
	n.cutOff = supervise.NewFailures(spec.CutOff, rand.Float64)
	n.memory = newMemoryDeaths(spec.Crowded)
	n.history = failureLog{most: max(spec.Restarts.MaxRestarts, spec.CutOff.MaxRestarts) + 1}
}

// remedy decides what to do after an attempt that did not end as it should. It returns early when ctx ends.
//
// Each node has its own count. An event that ends all nodes, such as a kill -9 of everything, costs each node one
// of its allowed failures without progress.
func (n *node) remedy(ctx context.Context, l *attempt) remedy {
	spec, v := n.swarm.spec, l.verdict
	r := remedy{cause: v.Cause, message: v.Message, free: true}
	if l.survives.Load() {
		r.leave, r.free = true, false
		return r
	}
	settle := spec.FaultSettle
	if spec.Faults == nil || !n.pool.isGPU() {
		settle = 0
	}
	if l.outage.strikes(ctx, settle) { // the fault caused the end, even if the process reported another cause
		r.cause, r.message = event.CauseDevice, l.outage.message
		if lost, err := l.outage.await(ctx); err == nil && lost != "" {
			r.message, r.leave, r.elsewhere, r.free = lost, true, true, false
		}
		return r
	}
	n.history.add(time.Now(), v.Cause, v.Message, l.rounds)
	if outOfMemory(v.Cause) {
		crowded := l.crowdedOut()
		r.memory, r.elsewhere, r.free = true, v.Cause == event.CauseOutOfMemory, !crowded
		wait, again := n.memory.add(l)
		if crowded || !again {
			r.wait, r.leave = wait, !again
			return r
		}
	}
	count := n.failures
	if v.Cause == event.CauseExchange { // the node is fine, but the exchange is unreachable
		count = n.cutOff
	}
	wait, again := count.Add(l.healthy, l.rounds)
	r.wait, r.leave, r.spent = wait, !v.Heals || !again, v.Heals && !again
	if l.healthy > 0 && count.First() && count == n.failures && !r.memory {
		r.wait = 0 // it ran well; memory and the exchange need the wait because a restart does not change them
	}
	if r.spent && !r.memory {
		r.cause, r.message = n.history.main()
	}
	return r
}

// fallBack moves a node that cannot continue on its pool to the CPU, if that is allowed and helps.
func (n *node) fallBack(l *attempt, next *remedy) bool {
	if !n.swarm.spec.CPUFallback || !next.elsewhere || !n.pool.isGPU() {
		return false
	}
	if next.memory {
		n.swarm.emit(n.start.Node, l.memoryStep(event.ActionCPU))
	}
	n.pool.leave(n, next.free, n.swarm.spec.Sharer == nil)
	n.toCPU()
	n.forgive()
	next.wait = 0
	next.message += "; it continues on the CPU"
	return true
}

// giveUp removes the node from the swarm and shares its memory among the others in its pool.
func (n *node) giveUp(l *attempt, next remedy) {
	if next.memory {
		n.swarm.emit(n.start.Node, l.memoryStep(event.ActionShed))
	}
	message := next.message
	if next.spent {
		message += "; " + n.history.String()
	}
	n.swarm.emit(n.start.Node, event.Event{Type: event.TypeGiveUp, Cause: next.cause, Message: message})
	n.swarm.giveUp(n)
	n.pool.leave(n, next.free, n.swarm.spec.Sharer == nil)
}
