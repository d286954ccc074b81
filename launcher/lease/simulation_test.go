package lease

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// The simulated GPU: 64 nodes share 20 GB. Each of their phases needs 0.5 to 6 GB for 0.5 to 4 s.
const (
	simNodes    = 64
	simRounds   = 40
	simCapacity = 20_000 // MB
	simLeast    = 500
	simLargest  = 6_000
	simDeaths   = 0.02 // fraction of leases
)

// simulation plays a swarm in virtual time. A round consists of scoring, generating under a lease, the barrier, and
// updating under a lease. Some nodes die while they wait or compute, and repeat the phase 5 s later.
type simulation struct {
	t      *testing.T
	random *rand.Rand
	pool   *Pool
	now    float64 // seconds
	events moments
	line   []*simNode // nodes with a waiting or held request, by arrival
	atGate int        // nodes that have generated in this round
	order  []string   // of grants
	nodes  []*simNode

	deaths       int
	wait, ratio  float64 // longest wait; highest ratio of a wait to its bound
	busy, queued float64 // MB·s held while a request waited, and the seconds of that
}

type simNode struct {
	name    string
	round   int
	phase   string
	lives   int64
	ticket  *Ticket // nil between leases
	held    bool
	asked   float64 // time of the request
	seconds float64 // computing time
	ends    float64 // end time, once held
	bound   float64 // upper bound of its wait
}

func (s *simulation) in(seconds float64, do func()) {
	heap.Push(&s.events, moment{s.now + seconds, s.events.pushed(), do})
}

func (s *simulation) between(low, high float64) float64 { return low + (high-low)*s.random.Float64() }

// run plays the simulation to its end.
func (s *simulation) run() {
	for i := range simNodes {
		n := &simNode{name: fmt.Sprintf("node_%d", i), phase: "generate"}
		s.nodes = append(s.nodes, n)
		s.in(s.between(0, 2), func() { s.request(n) })
	}
	for s.events.Len() > 0 {
		next := heap.Pop(&s.events).(moment)
		if held := s.pool.Snapshot(); len(held.Waiting) > 0 {
			s.busy += float64(held.Bytes) * (next.at - s.now)
			s.queued += next.at - s.now
		}
		s.now = next.at
		next.do()
		s.settle()
	}
}

func (s *simulation) request(n *simNode) {
	bytes := simLeast + s.random.Int64N(simLargest-simLeast+1)
	n.lives++
	n.asked, n.seconds = s.now, s.between(0.5, 4)
	// While a request waits, the head of the queue does not fit. So the running leases use more than the capacity
	// minus the largest request, and all of that work is in front of this request.
	var work float64
	for _, other := range s.line {
		left := other.seconds
		if other.held {
			left = other.ends - s.now
		}
		work += left * float64(other.ticket.asked)
	}
	n.bound = work / (simCapacity - simLargest)
	var err error
	if n.ticket, err = s.pool.Request(Key{n.name, n.lives}, bytes); err != nil {
		s.t.Fatal(err)
	}
	s.line = append(s.line, n)
	if s.random.Float64() < simDeaths {
		life := n.lives
		s.in(s.between(0, 20), func() { s.die(n, life) })
	}
}

func (s *simulation) die(n *simNode, life int64) {
	if n.lives != life || n.ticket == nil {
		return
	}
	s.deaths++
	if s.pool.ReleaseAll(n.name) != 1 {
		s.t.Fatalf("%s died, and its lease did not return", n.name)
	}
	s.leave(n)
	s.in(5, func() { s.request(n) })
}

func (s *simulation) leave(n *simNode) {
	n.ticket, n.held = nil, false
	s.line = slices.DeleteFunc(s.line, func(other *simNode) bool { return other == n })
}

// settle lets the nodes compute whose leases have just been granted, and checks the invariants.
func (s *simulation) settle() {
	blocked := false
	var held int64
	for _, n := range s.line {
		if !granted(n.ticket) {
			blocked = true
			continue
		}
		if blocked {
			s.t.Fatalf("%s overtook somebody at %.1f s", n.name, s.now)
		}
		held += n.ticket.asked
		if !n.held {
			s.grant(n)
		}
	}
	if held > simCapacity {
		s.t.Fatalf("%d MB of %d held at %.1f s", held, simCapacity, s.now)
	}
}

func (s *simulation) grant(n *simNode) {
	wait := s.now - n.asked
	if wait > n.bound+1e-6 {
		s.t.Fatalf("%s waited %.2f s, at most %.2f s of work was in front of it", n.name, wait, n.bound)
	}
	s.wait = max(s.wait, wait)
	if n.bound > 0 {
		s.ratio = max(s.ratio, wait/n.bound)
	}
	s.order = append(s.order, fmt.Sprintf("%s %d %s %.6f", n.name, n.round, n.phase, s.now))
	n.held, n.ends = true, s.now+n.seconds
	life := n.lives
	s.in(n.seconds, func() {
		if n.lives == life && n.held {
			s.pool.Release(n.ticket.key)
			s.leave(n)
			s.computed(n)
		}
	})
}

// computed starts the node's next phase. The last node to generate opens the barrier for all.
func (s *simulation) computed(n *simNode) {
	if n.phase == "update" {
		n.phase = "generate"
		if n.round++; n.round < simRounds {
			s.in(s.between(0, 1), func() { s.request(n) })
		}
		return
	}
	n.phase = "update"
	if s.atGate++; s.atGate < simNodes {
		return
	}
	s.atGate = 0
	for _, other := range s.nodes {
		s.in(s.between(0, 0.2), func() { s.request(other) })
	}
}

// TestSimulatedSwarm runs 64 nodes × 40 rounds with deaths. It shows that the pool keeps its capacity and starves or
// forgets no node. Every wait is within its bound, and the GPU is busy while a request waits.
func TestSimulatedSwarm(t *testing.T) {
	play := func() *simulation {
		s := &simulation{t: t, random: rand.New(rand.NewPCG(1, 2)), pool: NewPool(Capacity{Bytes: simCapacity})}
		s.run()
		return s
	}
	s := play()
	for _, n := range s.nodes {
		if n.round != simRounds {
			t.Errorf("%s is left in round %d at its %s phase: forgotten", n.name, n.round, n.phase)
		}
	}
	if s.deaths == 0 || s.queued == 0 {
		t.Fatalf("%d deaths, %.0f s with a queue: nothing was put to the test", s.deaths, s.queued)
	}
	used := s.busy / s.queued / simCapacity
	if used < 1-float64(simLargest)/simCapacity {
		t.Errorf("only %.0f %% of the capacity were used while somebody waited", 100*used)
	}
	t.Logf("%d leases, %d deaths, %.0f virtual seconds: longest wait %.1f s, at most %.0f %% of its bound; %.1f %% used while somebody waited",
		len(s.order), s.deaths, s.now, s.wait, 100*s.ratio, 100*used)
	if again := play(); !slices.Equal(again.order, s.order) {
		t.Error("the same swarm was served in another order")
	}
}

// moment is an event in virtual time. Events of the same instant happen in the order in which they were scheduled.
type moment struct {
	at    float64
	order int
	do    func()
}

type moments struct {
	list  []moment
	count int
}

func (m *moments) pushed() int { m.count++; return m.count }
func (m *moments) Len() int    { return len(m.list) }
func (m *moments) Less(i, j int) bool {
	a, b := m.list[i], m.list[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}
func (m *moments) Swap(i, j int) { m.list[i], m.list[j] = m.list[j], m.list[i] }
func (m *moments) Push(x any)    { m.list = append(m.list, x.(moment)) }
func (m *moments) Pop() any {
	last := m.list[len(m.list)-1]
	m.list = m.list[:len(m.list)-1]
	return last
}

// BenchmarkLease measures a request, its grant and its return while 63 other nodes wait or hold.
func BenchmarkLease(b *testing.B) {
	p := NewPool(Capacity{Bytes: 8, Slots: 8})
	keys := make([]Key, simNodes)
	tickets := make([]*Ticket, simNodes)
	for i := range keys {
		keys[i].Node = fmt.Sprintf("node_%d", i)
		tickets[i], _ = p.Request(keys[i], 1)
	}
	for i := 0; b.Loop(); i++ {
		n := i % simNodes // first in, first out: this ticket holds
		if err := tickets[n].Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		p.Release(keys[n])
		keys[n].ID++
		var err error
		if tickets[n], err = p.Request(keys[n], 1); err != nil {
			b.Fatal(err)
		}
	}
}
