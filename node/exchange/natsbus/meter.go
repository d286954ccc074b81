package natsbus

import (
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
	sent func(worker string) map[uint64]traffic // by the worker's connection

	mu      sync.Mutex
	workers map[string]*metered
}

// traffic is the bytes sent to a client over a connection, and the bytes waiting to be sent.
type traffic struct{ sent, waiting int64 }

type metered struct {
	sent   map[uint64]int64 // bytes sent at the last check, by connection
	looked time.Time
	passed int       // reads since the last check
	until  time.Time // no reads before this time
}

func newMeter(sent func(worker string) map[uint64]traffic) *meter {
	return &meter{sent: sent, workers: map[string]*metered{}}
}

// read returns how long a worker must wait before it may read, 0 if it may read now.
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

// traffic returns the traffic of a worker's connections. It returns nil for an external cluster, which has its own
// limits.
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
