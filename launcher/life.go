package launcher

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sapo-swarm/swarm/launcher/lease"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// life is one process of a node, as its events change it.
type life struct {
	child    *supervise.Child
	outage   *outage       // the first that can end it
	spawned  chan struct{} // closed when child is set and its spawn event is out
	loaded   chan struct{} // closed at the loaded event
	isUp     atomic.Bool
	upSince  atomic.Int64 // Unix nanoseconds of the loaded event
	heard    atomic.Int64 // Unix nanoseconds of the last event
	asks     atomic.Bool  // waits for a lease
	granted  atomic.Int64 // Unix nanoseconds of its last grant; 0: none
	survives atomic.Bool  // it can't be killed
	cut      bool         // a lease of it was less than it asked for; the events' reader only

	mu     sync.Mutex
	rounds int // done in this life
	round  int // the last one it was at
	state  event.State
	step   *event.MemoryStep // the last

	verdict supervise.Verdict // what its end means
	healthy time.Duration     // how long it ran well
}

// patience is what is left of the time that the node's loading may take, by which waiting for a lease doesn't count.
func (l *life) patience(limit time.Duration) time.Duration {
	switch at := l.granted.Load(); {
	case l.asks.Load():
		return limit
	case at > 0:
		return limit - time.Since(time.Unix(0, at))
	}
	return 0
}

// note keeps what the launcher has to know when the life ends.
func (l *life) note(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Type {
	case event.TypeState:
		l.state, l.round = e.State, e.RoundIndex
	case event.TypeRound:
		l.rounds++
		l.step = nil // it had got through
	case event.TypeMemoryStep:
		l.step = e.MemoryStep
	}
}

// handle takes one event of a process, on the goroutine that reads them.
func (n *node) handle(l *life, e event.Event) {
	<-l.spawned
	if l.survives.Load() { // given up: nobody will take back what it asks for
		return
	}
	l.heard.Store(time.Now().UnixNano())
	l.note(e)
	n.swarm.emit(n.start.Node, e)
	switch e.Type {
	case event.TypeLoaded:
		if !l.isUp.Load() {
			l.upSince.Store(time.Now().UnixNano())
			l.isUp.Store(true)
			close(l.loaded)
		}
	case event.TypeMemory:
		n.resident.Store(e.Memory.ResidentBytes)
	case event.TypeLease:
		n.requestLease(l, *e.Lease)
	case event.TypeRelease:
		n.room.pool.Release(lease.Key{Node: n.start.Node, ID: e.Lease.ID})
	}
}
