package natsbus

import (
	"crypto/tls"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// charged is an accounts that adds up what is charged.
type charged map[string]int64

func (c charged) Drawn(worker string, bytes int64) time.Duration {
	c[worker] += bytes
	return 0
}

// fakeTraffic is the sent function of a meter.
type fakeTraffic struct {
	connections map[string]map[uint64]traffic
	lost        bool
}

func (f *fakeTraffic) sent(worker string) (map[uint64]traffic, bool) {
	return f.connections[worker], !f.lost
}

// Every byte counts once: of open connections, of closed ones, and of an id that another connection has after a restart
// of the broker. Bytes of unknown number count as full answers.
func TestTheMeterCountsEachByteOnce(t *testing.T) {
	f, account, now := &fakeTraffic{}, charged{}, time.Now()
	m := newMeter(f.sent)
	for _, step := range []struct {
		name        string
		connections map[uint64]traffic
		lost        bool
		want        int64 // charged at this check
	}{
		{"one", map[uint64]traffic{1: {sent: 100}}, false, 100},
		{"the same", map[uint64]traffic{1: {sent: 100}}, false, 0},
		{"two", map[uint64]traffic{1: {sent: 150}, 2: {sent: 10}}, false, 60},
		{"the first has closed", map[uint64]traffic{1: {sent: 1150, closed: true}, 2: {sent: 10}}, false, 1000},
		{"it is forgotten", map[uint64]traffic{2: {sent: 11}}, false, 1},
		{"one opened and closed", map[uint64]traffic{2: {sent: 11}, 3: {sent: 70, closed: true}}, false, 70},
		{"another broker", map[uint64]traffic{2: {sent: 5}}, false, 5},
		{"a closed one is lost", map[uint64]traffic{2: {sent: 6}}, true, readBytes},
		{"nothing is open", nil, false, 0},
	} {
		now = now.Add(meterEvery)
		f.connections, f.lost = map[string]map[uint64]traffic{"ada": step.connections}, step.lost
		before := account["ada"]
		if wait := m.read("ada", account, now); wait != 0 {
			t.Fatalf("%s: wait %v", step.name, wait)
		}
		if got := account["ada"] - before; got != step.want {
			t.Errorf("%s: %d bytes are charged, want %d", step.name, got, step.want)
		}
	}
}

// However many workers a meter has seen, it counts no open connection again and keeps a bounded number of workers.
func TestAFullMeterCountsNothingAgain(t *testing.T) {
	f, account, now := &fakeTraffic{connections: map[string]map[uint64]traffic{}}, charged{}, time.Now()
	m := newMeter(f.sent)
	open := []string{"ada", "bob", "eve"}
	for i, worker := range open {
		f.connections[worker] = map[uint64]traffic{uint64(i): {sent: 1 << 20}}
		m.read(worker, account, now)
	}
	for i := range 3 * maxMetered {
		m.read(strconv.Itoa(i), account, now)
		if len(m.workers) > maxMetered {
			t.Fatalf("%d workers are kept", len(m.workers))
		}
	}
	now = now.Add(time.Second)
	for _, worker := range open {
		m.read(worker, account, now)
		if account[worker] != 1<<20 {
			t.Errorf("%s is charged %d bytes, and was sent %d", worker, account[worker], 1<<20)
		}
	}
	for i := range maxMetered { // more open connections than a swarm has workers
		f.connections[strconv.Itoa(i)] = map[uint64]traffic{1: {sent: 1}}
		m.read(strconv.Itoa(i), account, now.Add(time.Second))
	}
	if len(m.workers) > maxMetered {
		t.Errorf("%d workers are kept", len(m.workers))
	}
}

// Closed connections that the gate drops before they were counted are reported once.
func TestTheGateReportsDroppedConnections(t *testing.T) {
	g := &gate{workers: map[string][]uint64{}, alive: func(id uint64) bool { return id > maxConnections/2 }}
	for id := range uint64(maxConnections) {
		g.note("ada", id)
	}
	if ids, whole := g.connections("ada"); len(ids) != maxConnections || !whole {
		t.Errorf("%d connections, whole: %t", len(ids), whole)
	}
	if !g.note("ada", maxConnections) {
		t.Fatal("closed connections keep others out")
	}
	if _, whole := g.connections("ada"); whole {
		t.Error("dropped connections are not reported")
	}
	if _, whole := g.connections("ada"); !whole {
		t.Error("dropped connections are reported twice")
	}
	g.remove("ada", []uint64{maxConnections})
	if ids, _ := g.connections("ada"); len(ids) != maxConnections-1-maxConnections/2 {
		t.Errorf("%d connections are left", len(ids))
	}
}

// A worker that opens a new connection for every read is held to the same limit.
func TestReadsOfClosedConnectionsAreCounted(t *testing.T) {
	r := &reader{office: newOffice(t, "run"), left: 8 << 20}
	certificate, _, err := Certificate(t.TempDir(), []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	r.server = startServer(t, ServerOptions{Dir: t.TempDir(), TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}, Admit: r.admit})
	createRun(t, r.server, r.run)
	serveAdmission(t, r.server, r)
	subjects := r.bus(t, "ada", "a").subjects
	if err := r.server.StoreOffer(t.Context(), "run", membership.Offer{Node: "b", Data: make([]byte, 1<<20)}); err != nil {
		t.Fatal(err)
	}
	question, err := json.Marshal(query{LastOne: subjects.rollouts(0, "b")})
	if err != nil {
		t.Fatal(err)
	}
	const asked = 60
	received := 0
	for n := range asked {
		conn := hostile(t, r.office, "ada", "secret of ada", "ada", inboxOf("ada"))
		answers, err := conn.SubscribeSync(inboxOf("ada") + ".x.*")
		if err != nil {
			t.Fatal(err)
		}
		m := caller{worker: "ada", secret: "secret of ada"}.message(verbRead, question)
		m.Header.Set(runHeader, "run")
		m.Reply = inboxOf("ada") + ".x." + strconv.Itoa(n)
		if err := conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		answer, err := answers.NextMsg(time.Minute)
		if err != nil {
			t.Fatalf("question %d: %v", n, err)
		}
		received += len(answer.Data)
		conn.Close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Logf("%d MB were received over %d connections, %d MB were counted", received>>20, asked, r.drawn>>20)
	if received > 8<<20+(meterReads+2)<<20 || r.drawn < 8<<20 {
		t.Errorf("%d MB were received, 8 were allowed, %d were counted", received>>20, r.drawn>>20)
	}
}
