package node

import (
	"sync"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// Phases of a node's work that take memory, as leases and memory steps name them.
const (
	phaseLoad     = "load"
	phaseGenerate = "generate"
	phaseUpdate   = "update"
)

const (
	remembered = 16  // calls of a phase whose peaks count
	headroom   = 1.1 // on what was measured, for sequences that are longer next time
)

// meter knows what a node's phases take, in bytes: of a GPU's allocator, or of the engine's process on a CPU. Before a
// phase has run it says what the plan expects. It is safe for concurrent use.
type meter struct {
	device   bool // on a GPU
	expected protocol.Transient

	mu        sync.Mutex
	budget    int64 // 0: none
	hello     policy.HelloResult
	last      policy.Memory
	peak      int64 // of the host, engine and node process together
	peakShare int64 // of that the proportional share; 0: not known
	shared    int64 // by which resident memory is more than the proportional share, as of the newest sample
	sampled   bool  // shared is known
	loaded    int64 // held in a call: weights, optimizer
	parked    int64 // held between leases: less than loaded where a trim moves weights to the host
	phases    map[string]record
}

// record is what was measured of a phase.
type record struct {
	most int       // sequences that a call takes at a time, where it has as many
	seen []measure // of late, the last one last
}

// measure is one call's peak beyond what is loaded.
type measure struct {
	size  int // sequences at a time
	bytes int64
	first bool // it holds what stays: an update's moments on a CPU, a generation's caches on a GPU
}

// observe takes what the engine said at the end of a phase's call with size sequences at a time, where another call
// might have had most.
func (m *meter) observe(phase string, size, most int, memory policy.Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = memory
	if memory.CallPeakBytes == 0 {
		return // it doesn't tell
	}
	before := m.loaded
	m.loaded = memory.CallBeginBytes
	if m.device {
		// The first update makes Adam's moments, and a call may find the weights on the host. What a generation leaves
		// are caches for the next one: its own, unless that one finds them.
		stays := memory.DeviceAllocatedBytes
		if phase == phaseGenerate {
			stays = min(stays, before)
		}
		m.loaded = max(memory.CallBeginBytes, stays)
	}
	m.parked = m.loaded
	if m.phases == nil {
		m.phases = map[string]record{}
	}
	seen := m.phases[phase].seen
	first := m.device == (phase == phaseGenerate) && len(seen) == 0
	if len(seen) == 1 && seen[0].first {
		seen = nil
	}
	seen = append(seen, measure{size, memory.CallTook(m.loaded), first})
	m.phases[phase] = record{max(size, most), seen[max(0, len(seen)-remembered):]}
}

// plan notes that calls of a phase will take most sequences at a time from now on.
func (m *meter) plan(phase string, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.phases[phase]; ok {
		r.most = most
		m.phases[phase] = r
	}
}

// fresh takes what an engine said before, and held after it loaded the model. Nothing is known of its phases.
func (m *meter) fresh(hello policy.HelloResult, loaded policy.Memory) {
	loaded.DeviceReservedBytes = 0 // the self-test's, mostly
	m.rest(loaded)
	m.forget()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hello = hello
}

// process is the engine's, 0 before there is one.
func (m *meter) process() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hello.PID
}

// share takes by how much the resident memory of the node's processes is more than their proportional share.
func (m *meter) share(shared int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shared, m.sampled = shared, true
}

// rest takes what the engine holds between phases: after a trim.
func (m *meter) rest(memory policy.Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.parked = memory, memory.RSSBytes
	if m.device {
		m.parked = max(memory.DeviceAllocatedBytes, memory.DeviceReservedBytes)
	}
	m.loaded = max(m.loaded, m.parked)
}

// forget drops what was measured: the engine works in another way from now on.
func (m *meter) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phases, m.loaded = nil, m.parked
}

func (m *meter) setBudget(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.budget = bytes
}

// resident is the engine's resident memory as of its last answer.
func (m *meter) resident() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last.RSSBytes
}

// need is what a lease for a phase asks for: what the phase takes by what was measured of late, with headroom, but
// never more than the budget leaves.
func (m *meter) need(phase string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	bytes := m.expects(phase)
	if taken, known := m.taken(phase); known {
		bytes = int64(headroom * float64(taken))
	}
	if m.budget > 0 {
		bytes = min(bytes, m.budget-m.parked)
	}
	return max(0, bytes)
}

func (m *meter) expects(phase string) int64 {
	switch phase {
	case phaseGenerate:
		return m.expected.GenerateBytes
	case phaseUpdate:
		return m.expected.UpdateBytes
	}
	return 0
}

// taken is the most that a phase takes beyond what is held between leases, by what was measured of late: a call with
// few sequences says what one with many would take.
func (m *meter) taken(phase string) (int64, bool) {
	r := m.phases[phase]
	bytes, known := predict(r.seen, r.most)
	for _, s := range r.seen {
		if s.size <= r.most {
			bytes = max(bytes, s.bytes)
		}
	}
	if !known {
		return 0, false
	}
	return bytes + m.loaded - m.parked, true
}

// highest is the highest measurement at a size, -1 if there is none.
func highest(seen []measure, size int) int64 {
	most := int64(-1)
	for _, s := range seen {
		if s.size == size {
			most = max(most, s.bytes)
		}
	}
	return most
}

// holds tells whether the budget holds a call of a phase with so many sequences at a time, spare times over what is
// predicted. Where there is no budget it does; where nothing was measured the answer is unknown.
func (m *meter) holds(phase string, size int, spare float64, unknown bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return unknown
	}
	bytes, known := predict(m.phases[phase].seen, size)
	if !known {
		return unknown
	}
	return m.loaded+int64(spare*float64(bytes)) <= m.budget
}

// predict is what a call with so many sequences at a time would take beyond what is loaded: what was measured at that
// size, else a point of the line through the smallest and the largest size that were measured. One size alone gives the
// line through zero, which promises too little below it and too much above; the next call then tells.
func predict(seen []measure, size int) (bytes int64, known bool) {
	if len(seen) == 0 {
		return 0, false
	}
	if exact := highest(seen, size); exact >= 0 {
		return exact, true
	}
	small, large := seen[0].size, seen[0].size
	for _, s := range seen {
		small, large = min(small, s.size), max(large, s.size)
	}
	low, high := float64(highest(seen, small)), float64(highest(seen, large))
	if small == large {
		return int64(high * float64(size) / float64(large)), true
	}
	slope := max(0, (high-low)/float64(large-small))
	return max(0, int64(low+slope*float64(size-small))), true
}

// report is the memory event; own is the node process's resident memory.
func (m *meter) report(own int64) event.Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peak = max(m.peak, m.last.PeakRSSBytes+own) // an engine that is restarted begins at nothing
	r := event.Memory{
		RSSBytes: m.last.RSSBytes + own, PeakRSSBytes: m.peak,
		DeviceBytes: m.last.DeviceReservedBytes, DevicePeakBytes: m.last.DevicePeakBytes,
		BudgetBytes: m.budget,
	}
	if m.sampled && m.last.RSSBytes > 0 {
		r.PSSBytes = max(1, r.RSSBytes-m.shared)
		m.peakShare = max(m.peakShare, m.last.PeakRSSBytes+own-m.shared, r.PSSBytes)
		r.PeakPSSBytes = m.peakShare
	}
	if r.ResidentBytes = m.parked; !m.device {
		r.ResidentBytes = max(0, m.parked-m.hello.Interpreter(m.last))
	}
	r.GenerateBytes, _ = m.taken(phaseGenerate)
	r.UpdateBytes, _ = m.taken(phaseUpdate)
	r.MicroBatch = m.phases[phaseUpdate].most
	return r
}
