package node

import (
	"sync"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// Phases of a node's work that use memory, as named in leases and memory steps.
const (
	phaseLoad     = "load"
	phaseGenerate = "generate"
	phaseUpdate   = "update"
)

const (
	remembered = 16  // calls of a phase whose peaks count
	headroom   = 1.1 // factor on measurements, for longer sequences next time
)

// meter tracks the memory that a node's phases use, in bytes: of the GPU's allocator, or of the engine's process on
// a CPU. Before a phase has run it returns the plan's estimate. It is safe for concurrent use.
type meter struct {
	device   bool // on a GPU
	expected protocol.Transient

	mu        sync.Mutex
	budget    int64 // 0: none
	hello     policy.HelloResult
	last      policy.Memory
	peak      int64 // of host memory, engine and node process together
	peakShare int64 // proportional share of peak; 0: unknown
	shared    int64 // resident memory minus proportional share, as of the newest sample
	sampled   bool  // shared is known
	loaded    int64 // in use during a call before the phase's own memory: weights, optimizer
	parked    int64 // held between leases: less than loaded if a trim moves weights to the host
	phases    map[string]record
}

// record holds the measurements of a phase.
type record struct {
	most int       // sequences that a full call computes at a time
	seen []measure // recent calls, the newest last
}

// measure is one call's peak beyond loaded.
type measure struct {
	size  int // sequences at a time
	bytes int64
	first bool // includes memory that stays: an update's moments on a CPU, a generation's caches on a GPU
}

// observe records the engine's memory report at the end of a phase's call. size is the number of sequences that the
// call computed at a time, most that of a full call of the phase.
func (m *meter) observe(phase string, size, most int, memory policy.Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = memory
	if memory.CallPeakBytes == 0 {
		return // not reported
	}
	before := m.loaded
	m.loaded = memory.CallBeginBytes
	if m.device {
		// The first update allocates Adam's moments, and a call may find the weights on the host. A generation
		// leaves caches for the next one. They count as the generation's own memory, unless they were there before
		// it.
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

// plan sets the number of sequences that a phase's later calls compute at a time.
func (m *meter) plan(phase string, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.phases[phase]; ok {
		r.most = most
		m.phases[phase] = r
	}
}

// fresh records a new engine's greeting and its memory after it loaded the model. It drops all measurements of
// phases.
func (m *meter) fresh(hello policy.HelloResult, loaded policy.Memory) {
	loaded.DeviceReservedBytes = 0 // mostly left over from the self-test
	m.rest(loaded)
	m.forget()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hello = hello
}

// process is the engine's process id, 0 before there is an engine.
func (m *meter) process() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hello.PID
}

// share records by how much the resident memory of the node's processes exceeds their proportional share.
func (m *meter) share(shared int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shared, m.sampled = shared, true
}

// rest records what the engine holds between phases, after a trim.
func (m *meter) rest(memory policy.Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.parked = memory, memory.RSSBytes
	if m.device {
		m.parked = max(memory.DeviceAllocatedBytes, memory.DeviceReservedBytes)
	}
	m.loaded = max(m.loaded, m.parked)
}

// forget drops the measurements, after a change in how the engine works.
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

// need is the number of bytes that a lease for a phase requests: the recent measurements with headroom, or the
// plan's estimate, at most what the budget leaves.
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

// taken is the most memory that a phase uses beyond what is held between leases, by recent measurements. It
// extrapolates from small calls to a full one.
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

// holds reports whether the budget has room for a call of a phase that computes size sequences at a time and needs
// spare times the predicted memory. Without a budget or a measurement it returns unknown.
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

// predict estimates the memory of a call with size sequences at a time beyond loaded. It returns the measurement at
// that size if there is one. Otherwise it takes the line through the smallest and the largest measured size. With
// one measured size the line goes through zero, which predicts too little below that size and too much above. The
// next call corrects it.
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

// report returns the memory event. own is the node process's resident memory.
func (m *meter) report(own int64) event.Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peak = max(m.peak, m.last.PeakRSSBytes+own) // the counter of a restarted engine begins at zero
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
