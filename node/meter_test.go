package node

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
)

func call(begin, peak, end int64) policy.Memory {
	return policy.Memory{CallBeginBytes: begin, CallPeakBytes: peak, DeviceAllocatedBytes: end, RSSBytes: end}
}

func TestMeterOfAGPU(t *testing.T) {
	m := &meter{device: true, expected: protocol.Transient{GenerateBytes: 300, UpdateBytes: 500}, budget: 2000}
	require.EqualValues(t, 0, m.need(phaseLoad))
	require.EqualValues(t, 300, m.need(phaseGenerate), "the plan's, before anything was measured")
	require.EqualValues(t, 500, m.need(phaseUpdate))
	m.rest(call(0, 0, 100))
	m.observe(phaseGenerate, 8, 8, call(100, 150, 100))
	require.EqualValues(t, 55, m.need(phaseGenerate), "measured, and a tenth")

	// The first update allocates 200 of Adam's moments.
	m.observe(phaseUpdate, 16, 16, call(100, 700, 300))
	require.EqualValues(t, 440, m.need(phaseUpdate))
	m.observe(phaseUpdate, 16, 16, call(300, 650, 300))
	require.EqualValues(t, 440, m.need(phaseUpdate), "the most of late")
	want := event.Memory{ResidentBytes: 300, GenerateBytes: 50, UpdateBytes: 400, MicroBatch: 16, BudgetBytes: 2000, RSSBytes: 307, PeakRSSBytes: 7}
	require.Equal(t, want, m.report(7))

	// With half as many sequences at a time, the measurement of the full batch no longer counts.
	m.observe(phaseUpdate, 8, 8, call(300, 520, 300))
	require.EqualValues(t, 242, m.need(phaseUpdate))
	m.observe(phaseUpdate, 2, 8, call(300, 350, 300))
	require.EqualValues(t, 242, m.need(phaseUpdate), "a call with few sequences doesn't lower it")
	m.setBudget(400)
	require.EqualValues(t, 100, m.need(phaseUpdate), "never more than the budget leaves")

	m.setBudget(2000)
	for range remembered {
		m.observe(phaseUpdate, 8, 8, call(300, 400, 300))
	}
	require.EqualValues(t, 110, m.need(phaseUpdate), "what is long ago is forgotten")
}

// Caches that a generation leaves count as its own if the end of the lease frees them, and as held if the next
// generation finds them.
func TestMeterOfCachesOfAGeneration(t *testing.T) {
	trims := &meter{device: true}
	keeps := &meter{device: true}
	for _, m := range []*meter{trims, keeps} {
		m.rest(call(0, 0, 100))
		m.observe(phaseGenerate, 8, 8, call(100, 190, 160))
		require.EqualValues(t, 99, m.need(phaseGenerate), "(190 - 100) and a tenth")
	}
	trims.rest(call(0, 0, 100))
	trims.observe(phaseUpdate, 8, 8, call(100, 700, 300))
	trims.rest(call(0, 0, 300))
	require.EqualValues(t, 99, trims.need(phaseGenerate), "the next one makes them again")
	trims.observe(phaseGenerate, 8, 8, call(300, 390, 360))
	require.EqualValues(t, 99, trims.need(phaseGenerate))

	keeps.observe(phaseUpdate, 8, 8, call(160, 760, 360))
	require.EqualValues(t, 440, keeps.need(phaseUpdate))
	keeps.observe(phaseGenerate, 8, 8, call(360, 390, 360))
	require.EqualValues(t, 33, keeps.need(phaseGenerate), "they are there")
	require.EqualValues(t, 360, keeps.report(0).ResidentBytes)
}

// Weights that are parked on the host between leases return during a lease.
func TestMeterOfParkedWeights(t *testing.T) {
	m := &meter{device: true}
	m.rest(call(0, 0, 10))
	m.observe(phaseUpdate, 4, 4, call(10, 900, 500))
	m.rest(call(0, 0, 10))
	require.EqualValues(t, 979, m.need(phaseUpdate), "weights, optimizer and the phase: (900 - 10) and a tenth")
	require.EqualValues(t, 10, m.report(0).ResidentBytes)
	require.EqualValues(t, 890, m.report(0).UpdateBytes)
}

// A lease is for the bytes taken from the GPU's free memory: the allocator's blocks, which are larger than the
// tensors in them.
func TestMeterOfReservedMemory(t *testing.T) {
	reserved := func(begin, peak, end, beginReserved, peakReserved int64) policy.Memory {
		m := call(begin, peak, end)
		m.CallBeginReservedBytes, m.CallPeakReservedBytes, m.DeviceReservedBytes = beginReserved, peakReserved, peakReserved
		return m
	}
	trimmed := policy.Memory{DeviceAllocatedBytes: 100, DeviceReservedBytes: 120}
	m := &meter{device: true, budget: 2000}
	m.fresh(policy.HelloResult{}, policy.Memory{DeviceAllocatedBytes: 100, DeviceReservedBytes: 900})
	require.EqualValues(t, 100, m.report(0).ResidentBytes, "the self-test's blocks are free for the taking")

	m.rest(trimmed)
	require.EqualValues(t, 120, m.report(0).ResidentBytes)
	m.observe(phaseGenerate, 8, 8, reserved(100, 400, 100, 120, 620))
	m.rest(trimmed)
	require.EqualValues(t, 550, m.need(phaseGenerate), "620 - 120 and a tenth: all that the GPU had fewer free")

	// Without a trim between calls, the blocks of the last call serve the next one. Only the tensors of the next
	// call show its memory.
	m = &meter{device: true, budget: 2000}
	m.rest(trimmed)
	m.observe(phaseUpdate, 8, 8, reserved(100, 900, 100, 120, 1120))
	m.observe(phaseGenerate, 8, 8, reserved(100, 300, 100, 1120, 1120))
	m.rest(trimmed)
	require.EqualValues(t, 220, m.need(phaseGenerate), "300 - 100 and a tenth, not the update's blocks")

	// Weights parked on the host: during a call they count as loaded, not as the call's own.
	m = &meter{device: true}
	m.rest(policy.Memory{DeviceAllocatedBytes: 10, DeviceReservedBytes: 20})
	m.observe(phaseUpdate, 4, 4, reserved(10, 900, 500, 20, 1020))
	m.rest(policy.Memory{DeviceAllocatedBytes: 10, DeviceReservedBytes: 20})
	require.EqualValues(t, 1100, m.need(phaseUpdate), "1020 - 20 and a tenth")
	require.EqualValues(t, 1020, m.report(0).ResidentBytes+m.report(0).UpdateBytes, "together they are the peak")
}

func TestMeterOfACPU(t *testing.T) {
	m := &meter{hello: policy.HelloResult{AnonymousBytes: 120}}
	m.rest(policy.Memory{RSSBytes: 250, AnonymousBytes: 170, PeakRSSBytes: 260})
	m.observe(phaseUpdate, 4, 4, policy.Memory{CallBeginBytes: 250, CallPeakBytes: 450, RSSBytes: 350, PeakRSSBytes: 450})
	require.EqualValues(t, 220, m.need(phaseUpdate))
	m.observe(phaseUpdate, 4, 4, policy.Memory{CallBeginBytes: 350, CallPeakBytes: 450, RSSBytes: 350, AnonymousBytes: 270, PeakRSSBytes: 450})
	require.EqualValues(t, 110, m.need(phaseUpdate), "the first one's moments were no transient")
	r := m.report(50)
	require.Equal(t, []int64{150, 100, 400, 500}, []int64{r.ResidentBytes, r.UpdateBytes, r.RSSBytes, r.PeakRSSBytes})
	m.rest(policy.Memory{RSSBytes: 100, PeakRSSBytes: 120})
	require.EqualValues(t, 500, m.report(50).PeakRSSBytes, "an engine that was restarted doesn't lower it")
	require.Zero(t, m.report(50).PSSBytes, "nobody told of a share")
	m.share(60)
	r = m.report(50)
	require.Equal(t, []int64{150, 90, 110}, []int64{r.RSSBytes, r.PSSBytes, r.PeakPSSBytes})
	m.share(20)
	require.EqualValues(t, 150, m.report(50).PeakPSSBytes, "less is shared: other engines have ended")
	m.share(60)
	require.EqualValues(t, 150, m.report(50).PeakPSSBytes)
	m.observe(phaseGenerate, 4, 4, policy.Memory{RSSBytes: 9})
	require.Zero(t, m.report(0).GenerateBytes, "an engine that gives no figures")
}

func TestPredict(t *testing.T) {
	cases := []struct {
		name string
		seen []measure
		size int
		want int64
	}{
		{"one size, half of it", []measure{{size: 8, bytes: 80}}, 4, 40},
		{"one size, twice", []measure{{size: 8, bytes: 80}}, 16, 160},
		{"measured", []measure{{size: 8, bytes: 80}, {size: 8, bytes: 90}, {size: 8, bytes: 85}}, 8, 90},
		{"a line", []measure{{size: 8, bytes: 80}, {size: 4, bytes: 60}}, 16, 120},
		{"a line, below", []measure{{size: 8, bytes: 80}, {size: 4, bytes: 60}}, 2, 50},
		{"no slope down", []measure{{size: 8, bytes: 40}, {size: 4, bytes: 60}}, 16, 60},
		{"steep, below zero", []measure{{size: 8, bytes: 80}, {size: 4, bytes: 8}}, 1, 0},
	}
	for _, c := range cases {
		got, known := predict(c.seen, c.size)
		require.True(t, known)
		require.Equal(t, c.want, got, c.name)
	}
	_, known := predict(nil, 3)
	require.False(t, known)
}

// A prediction does not fall with the number of sequences unless the measurements did.
func TestPredictionGrowsWithSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, slope := rapid.Int64Range(0, 1e9).Draw(t, "base"), rapid.Int64Range(0, 1e8).Draw(t, "slope")
		var seen []measure
		for range rapid.IntRange(1, 20).Draw(t, "calls") {
			size := 1 << rapid.IntRange(0, 7).Draw(t, "size")
			seen = append(seen, measure{size: size, bytes: base + slope*int64(size)})
		}
		before := int64(-1)
		for size := 1; size <= 256; size *= 2 {
			bytes, _ := predict(seen, size)
			if bytes < before {
				t.Fatalf("%d sequences take %d, fewer took %d", size, bytes, before)
			}
			before = bytes
		}
	})
}

func TestHolds(t *testing.T) {
	m := &meter{device: true}
	require.True(t, m.holds(phaseUpdate, 8, 1, true), "without a budget nothing is known")
	require.False(t, m.holds(phaseUpdate, 8, 1, false))
	m.setBudget(500)
	require.True(t, m.holds(phaseUpdate, 8, 1, true), "without a measurement neither")
	m.observe(phaseUpdate, 8, 8, call(100, 500, 100))
	require.True(t, m.holds(phaseUpdate, 8, 1, false))
	require.False(t, m.holds(phaseUpdate, 8, headroom, true))
	require.False(t, m.holds(phaseUpdate, 16, 1, true))
}
