package launch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sapo-swarm/swarm/launcher/lease"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// attempt is one process of a node, as its events change it.
type attempt struct {
	child     *supervise.Child
	outage    *outage       // the first that can end it
	spawned   chan struct{} // closed when child is set and its spawn event is out
	loaded    chan struct{} // closed at the loaded event
	isUp      atomic.Bool
	upSince   moment // the loaded event
	lastEvent moment
	gotOn     moment      // the spawn, the last state, request of a lease, grant or release
	asks      atomic.Bool // waits for a lease
	survives  atomic.Bool // it can't be killed
	cut       bool        // a lease of it was less than it asked for; the events' reader only

	mu     sync.Mutex
	rounds int // done in this attempt, for the first time
	round  int // the last one it was at
	state  event.State
	step   *event.MemoryStep // the last

	verdict supervise.Verdict // what its end means
	healthy time.Duration     // how long it ran well
}

// left is what is left of the time that the node may take for what it does, and what to say of it when there is none.
// Loading may take as long between two signs of getting on, of which a replayed round is one, and waiting for a lease
// doesn't count.
func (l *attempt) left(spec Spec) (time.Duration, string) {
	switch {
	case l.isUp.Load():
		return spec.StallTimeout - l.lastEvent.since(), "no sign of attempt for " + spec.StallTimeout.String()
	case l.asks.Load():
		return spec.LoadTimeout, ""
	}
	return spec.LoadTimeout - l.gotOn.since(), "its model was not loaded after " + spec.LoadTimeout.String()
}

// note keeps what the launcher has to know when the attempt ends. A round told again is no progress.
func (l *attempt) note(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Type {
	case event.TypeState:
		l.state, l.round = e.State, e.RoundIndex
	case event.TypeRound:
		if !e.Replayed {
			l.rounds++
			l.step = nil // it had got through
		}
	case event.TypeMemoryStep:
		l.step = e.MemoryStep
	}
}

// handle takes one event of a process; they come one at a time.
func (n *node) handle(l *attempt, e event.Event) {
	<-l.spawned
	if l.survives.Load() { // given up: nobody will take back what it asks for
		return
	}
	l.lastEvent.mark()
	if e.Type == event.TypeEngine {
		n.adopt(l, e.PID)
		return
	}
	if e.Type == event.TypeLoaded { // before others hear of it, who may end this process
		n.adopt(l, e.Loaded.EnginePID)
	}
	l.note(e)
	n.swarm.emit(n.start.Node, e)
	switch e.Type {
	case event.TypeState:
		l.gotOn.mark()
		if e.State == event.StateReplaying { // its model is in memory: the next node may load
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

// adopt makes the node's engine end with it at the latest.
func (n *node) adopt(l *attempt, engine int) {
	if engine <= 0 {
		return
	}
	if err := l.child.Adopt(engine); err != nil {
		n.swarm.logger.Debug("engine not adopted", "node", n.start.Node, "err", err)
	}
}

// recorded notes that a round was passed on, so that the node's next attempt need not tell of it again.
func (n *node) recorded(round int) {
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	if n.start.Recorded == round {
		n.start.Recorded++
	}
}

// evaluated notes that an evaluation was passed on, as recorded does of a round.
func (n *node) evaluated(round int) {
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	n.start.Evaluated = append(n.start.Evaluated[:len(n.start.Evaluated):len(n.start.Evaluated)], round)
}
