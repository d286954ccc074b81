package natsbus

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// The broker sends a worker's reads directly to the worker. So their size is known only afterwards, from the bytes sent
// over the worker's connections. The meter checks them regularly. It forwards no more reads while the worker has
// exceeded its allowance, or receives less than it requests.
const (
	meterEvery    = 100 * time.Millisecond
	meterReads    = 8       // reads forwarded between two checks
	workerPending = 8 << 20 // bytes waiting to be sent to a worker; above it, its reads are refused
	slowRetry     = time.Second
)

// accounts is an Admission that counts what a worker has read. Drawn returns how long the worker must wait before it
// may read more.
type accounts interface {
	Drawn(worker string, bytes int64) time.Duration
}

// meter counts what workers read. It is safe for concurrent use.
type meter struct {
	// sent returns the traffic of the worker's open connections, and of those that closed since the last call. whole is
	// false if the bytes of a closed connection are unknown.
	sent func(worker string) (connections map[uint64]traffic, whole bool)

	mu      sync.Mutex
	workers map[string]*metered
}

// traffic is the bytes sent to a client over a connection, and the bytes waiting to be sent.
type traffic struct {
	sent, waiting int64
	closed        bool
}

type metered struct {
	sent   map[uint64]int64 // bytes sent at the last check, by open connection
	looked time.Time
	passed int       // reads since the last check
	until  time.Time // no reads before this time
}

func newMeter(sent func(worker string) (map[uint64]traffic, bool)) *meter {
	return &meter{sent: sent, workers: map[string]*metered{}}
}

// read returns how long a worker must wait before it may read, 0 if it may read now.
func (m *meter) read(worker string, to accounts, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.workers[worker]
	if w == nil {
		if len(m.workers) >= maxMetered {
			m.evict()
		}
		w = &metered{sent: map[uint64]int64{}}
		m.workers[worker] = w
	}
	if wait := w.until.Sub(now); wait > 0 {
		return wait
	}
	if w.passed++; w.passed < meterReads && now.Sub(w.looked) < meterEvery {
		return 0
	}
	drawn, waiting := m.check(worker, w)
	w.looked, w.passed = now, 0
	wait := to.Drawn(worker, drawn)
	if waiting > workerPending {
		wait = max(wait, slowRetry)
	}
	w.until = now.Add(wait)
	return wait
}

// check returns the bytes sent to a worker since the last check, and the bytes waiting to be sent. If the bytes of a
// closed connection are unknown, the reads forwarded since the last check count as full answers.
func (m *meter) check(worker string, w *metered) (drawn, waiting int64) {
	connections, whole := m.sent(worker)
	after := map[uint64]int64{}
	for id, t := range connections {
		before := w.sent[id]
		if t.sent < before { // another connection has this id, after a restart of the broker
			before = 0
		}
		drawn += t.sent - before
		if !t.closed {
			waiting += t.waiting
			after[id] = t.sent
		}
	}
	w.sent = after
	if !whole {
		drawn = max(drawn, int64(w.passed)*readBytes)
	}
	return drawn, waiting
}

// maxMetered bounds the workers in a meter. At most half of them can be members of the swarm at a time.
const maxMetered = 2 * membership.MaxWorkers

// evict removes the workers that had no open connection at their last check, and at least the one whose last check is
// the oldest. The bytes of open connections would be counted again.
func (m *meter) evict() {
	maps.DeleteFunc(m.workers, func(_ string, w *metered) bool { return len(w.sent) == 0 })
	if len(m.workers) < maxMetered {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Keys(m.workers)), func(a, b string) int {
		return cmp.Or(m.workers[a].looked.Compare(m.workers[b].looked), cmp.Compare(a, b))
	})
	delete(m.workers, oldest)
}

// traffic returns the traffic of a worker's connections for a meter. It returns nothing for an external cluster, which
// has its own limits.
func (s *Server) traffic(worker string) (all map[uint64]traffic, whole bool) {
	if s.cluster != nil {
		return nil, true
	}
	broker := s.current()
	ids, whole := s.gate.connections(token(worker))
	all = make(map[uint64]traffic, len(ids))
	var closed []uint64
	for _, id := range ids {
		list, err := broker.Connz(&natsserver.ConnzOptions{CID: id})
		if err == nil && len(list.Conns) == 1 {
			all[id] = traffic{sent: list.Conns[0].OutBytes, waiting: int64(list.Conns[0].Pending)}
			continue
		}
		closed = append(closed, id)
		// The broker remembers the newest maxClosed closed connections.
		list, err = broker.Connz(&natsserver.ConnzOptions{CID: id, State: natsserver.ConnClosed})
		if err != nil || len(list.Conns) != 1 {
			whole = false
			continue
		}
		all[id] = traffic{sent: list.Conns[0].OutBytes, closed: true}
	}
	s.gate.remove(token(worker), closed)
	return all, whole
}
