package launch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sapo-swarm/swarm/launcher/lease"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// attempt is one process of a node and the state derived from its events.
type attempt struct {
	child     *supervise.Child
	outage    *outage       // the next outage that can end it
	spawned   chan struct{} // closed after child is set and its spawn event emitted
	loaded    chan struct{} // closed at the loaded event
	isUp      atomic.Bool
	upSince   moment // time of the loaded event
	lastEvent moment
	gotOn     moment      // time of the spawn, or of the last state, lease request, grant or release
	asks      atomic.Bool // waiting for a lease
	survives  atomic.Bool // it cannot be killed
	cut       bool        // it has got a lease smaller than requested; used by the event reader only

	mu     sync.Mutex
	rounds int // completed in this attempt, for the first time
	round  int // round of the last reported state
	state  event.State
	step   *event.MemoryStep // the last reported one

	verdict supervise.Verdict // classification of its end
	healthy time.Duration     // time for which it ran after loading
}

// left returns the time left before the attempt counts as stuck, and the message for that case. While loading, each
// sign of progress restarts the limit. A replayed round is such a sign. Waiting for a lease does not count.
func (l *attempt) left(spec Spec) (time.Duration, string) {
	switch {
	case l.isUp.Load():
		return spec.StallTimeout - l.lastEvent.since(), "no sign of life for " + spec.StallTimeout.String()
	case l.asks.Load():
		return spec.LoadTimeout, ""
	}
	return spec.LoadTimeout - l.gotOn.since(), "its model was not loaded after " + spec.LoadTimeout.String()
}

// note records what the launcher needs to know when the attempt ends. A replayed round is not progress.
func (l *attempt) note(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Type {
	case event.TypeState:
		l.state, l.round = e.State, e.RoundIndex
	case event.TypeRound:
		if !e.Replayed {
			l.rounds++
			l.step = nil // it recovered from the step
		}
	case event.TypeMemoryStep:
		l.step = e.MemoryStep
	}
}

// handle handles one event of a process. Events come one at a time.
func (n *node) handle(l *attempt, e event.Event) {
	<-l.spawned
	if l.survives.Load() { // given up: nobody would release its leases
		return
	}
	l.lastEvent.mark()
	if e.Type == event.TypeEngine {
		n.adopt(l, e.PID)
		return
	}
	if e.Type == event.TypeLoaded { // before the sink gets it, which may end this process
		n.adopt(l, e.Loaded.EnginePID)
	}
	l.note(e)
	n.swarm.emit(n.start.Node, e)
	switch e.Type {
	case event.TypeState:
		l.gotOn.mark()
		if e.State == event.StateReplaying { // its model is in memory, so the next node may load
			n.swarm.loading.Release(lease.Key{Node: n.start.Node})
		}
	case event.TypeLoaded:
		if !l.isUp.Load() {
			l.upSince.mark()
			l.isUp.Store(true)
			close(l.loaded)
		}
	case event.TypeRound:
		n.recorded(e.Round.Round)
	case event.TypeEval:
		n.evaluated(e.Eval.Round)
	case event.TypeMemory:
		n.resident.Store(e.Memory.ResidentBytes)
	case event.TypeLease:
		l.gotOn.mark()
		n.requestLease(l, *e.Lease)
	case event.TypeRelease:
		l.gotOn.mark()
		n.pool.leases.Release(lease.Key{Node: n.start.Node, ID: e.Lease.ID})
	}
}

// adopt makes the node's engine end no later than the node.
func (n *node) adopt(l *attempt, engine int) {
	if engine <= 0 {
		return
	}
	if err := l.child.Adopt(engine); err != nil {
		n.swarm.logger.Debug("engine not adopted", "node", n.start.Node, "err", err)
	}
}

// recorded notes that a round was passed on, so that the node's next attempt need not report it again.
func (n *node) recorded(round int) {
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	if n.start.Recorded == round {
		n.start.Recorded++
	}
}

// evaluated notes that an evaluation was passed on, as recorded does for a round.
func (n *node) evaluated(round int) {
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	n.start.Evaluated = append(n.start.Evaluated[:len(n.start.Evaluated):len(n.start.Evaluated)], round)
}
