package natsbus

import (
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// What a worker reads the broker sends it directly, so that its size is known only afterwards: by what has gone over
// the worker's connections. The meter looks every so often, and passes no more reads on while the worker has drawn more
// than it may, or takes less than it asks for.
const (
	meterEvery    = 100 * time.Millisecond
	meterReads    = 8       // passed on between two looks
	workerPending = 8 << 20 // bytes that wait to be sent to a worker, above which it may not ask for more
	slowRetry     = time.Second
)

// accounts is an Admission that counts what a worker has read, and says how long it must wait before it may read more.
type accounts interface {
	Drawn(worker string, bytes int64) time.Duration
}

// meter counts what workers read. It is safe for concurrent use.
type meter struct {
	sent func(worker string) map[uint64]traffic // by connection of the worker's

	mu      sync.Mutex
	workers map[string]*metered
}

// traffic is what went over a connection to a client, and what waits to be sent, in bytes.
type traffic struct{ sent, waiting int64 }

type metered struct {
	sent   map[uint64]int64 // by connection: what was there at the last look
	looked time.Time
	passed int       // reads since then
	until  time.Time // it may read nothing before
}

func newMeter(sent func(worker string) map[uint64]traffic) *meter {
	return &meter{sent: sent, workers: map[string]*metered{}}
}

// read tells whether a worker may read now: 0, or how long it must wait.
func (m *meter) read(worker string, to accounts, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.workers[worker]
	if w == nil {
		if len(m.workers) >= 2*membership.MaxWorkers {
			clear(m.workers)
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
	w.looked, w.passed = now, 0
	var drawn, waiting int64
	after := map[uint64]int64{}
	for id, t := range m.sent(worker) {
		drawn += max(0, t.sent-w.sent[id])
		waiting += t.waiting
		after[id] = t.sent
	}
	w.sent = after
	wait := to.Drawn(worker, drawn)
	if waiting > workerPending {
		wait = max(wait, slowRetry)
	}
	w.until = now.Add(wait)
	return wait
}

// traffic is what went over a worker's connections to it; none of an external cluster, whose own limits count.
func (s *Server) traffic(worker string) map[uint64]traffic {
	if s.cluster != nil {
		return nil
	}
	broker, all := s.current(), map[uint64]traffic{}
	for _, id := range s.gate.connections(token(worker)) {
		list, err := broker.Connz(&natsserver.ConnzOptions{CID: id})
		if err != nil || len(list.Conns) != 1 {
			continue
		}
		all[id] = traffic{list.Conns[0].OutBytes, int64(list.Conns[0].Pending)}
	}
	return all
}
