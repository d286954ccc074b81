package fit

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/internal/units"
)

// open returns the paper's 4 / 4 with an automatic micro-batch and CUDA graphs, as the presets set them.
func open(gpus ...GPU) Request {
	r := request(gpt2, gpus...)
	r.Settings.Prompts, r.Settings.MicroBatch, r.Settings.CUDAGraphs = 4, 0, true
	return r
}

// An automatic micro-batch is as large as fits into seven eighths of the card. It never changes the guide's count of
// nodes.
func TestTheMicroBatchIsWhatFits(t *testing.T) {
	tests := []struct {
		memory       int64
		nodes, batch int // 0: all rows
		kept         bool
		most         float64 // planned part of the card at the peak
	}{
		{141e9, 8, 0, true, 0.61},
		{80e9, 8, 0, false, 0.875},
		{40e9, 6, 4, false, 0.875},
		{32e9, 4, 4, true, 0.875},
		{24e9, 3, 4, true, 0.875},
		{15e9, 1, 0, true, 0.75},
	}
	for _, tt := range tests {
		r := open()
		r.GPUMemory = tt.memory
		p := plan(t, r)
		if p.Nodes != tt.nodes || p.Share != ShareStatic || p.MicroBatch != tt.batch || p.KeepMemory != tt.kept {
			t.Errorf("%s: %d nodes, %s, micro-batch %d, memory kept %v", units.BytesShort(tt.memory), p.Nodes, p.Share, p.MicroBatch, p.KeepMemory)
		}
		if share := float64(p.Expected) / float64(p.Capacity); share > tt.most || p.Expected != int64(p.Nodes)*(p.PerNode.Resident+p.PerNode.Transient) {
			t.Errorf("%s: %s at the peak", units.BytesShort(tt.memory), units.BytesShort(p.Expected))
		}
		r.Settings.MicroBatch = 2
		if p := plan(t, r); p.MicroBatch != 2 {
			t.Errorf("%s: micro_batch 2 became %d", units.BytesShort(tt.memory), p.MicroBatch)
		}
	}
}

// With leases, a larger micro-batch never reduces how many nodes compute at a time.
func TestTheMicroBatchUnderLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := open()
		r.GPUMemory = between(t, 15e9, 141e9, "memory")
		r.SwarmSize = rapid.SampledFrom([]int{1, 8, 24}).Draw(t, "swarm size")
		r.Nodes, r.Share = NodesMax, ShareLease
		p, err := New(r)
		if err != nil {
			t.Fatal(err)
		}
		r.Settings.MicroBatch = modest
		small, err := New(r)
		if err != nil {
			t.Fatal(err)
		}
		easy := func(p Plan) int64 { // nodes at a time in seven eighths of the card
			free := r.GPUMemory - r.GPUMemory/8 - int64(p.Nodes)*p.PerNode.Resident
			return max(1, min(int64(p.Nodes), free/(p.PerNode.Transient-p.Kept())))
		}
		if p.Nodes != small.Nodes || easy(p) < easy(small) || whole(p.MicroBatch) < whole(small.MicroBatch) {
			t.Fatalf("micro-batch %d of %d nodes, %d at a time; with %d %d nodes, %d at a time", p.MicroBatch, p.Nodes, easy(p), small.MicroBatch,
				small.Nodes, easy(small))
		}
	})
}

// Nodes that take turns keep their memory if all of them fit at once. Then no node can exceed its part of the card:
// every budget is that part.
func TestNodesKeepMemoryWhereAllFitAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Request)
		keep   bool
	}{
		{"eight small ones on a large card", func(r *Request) { r.GPUMemory = 141e9 }, true},
		{"with fewer cores than nodes", func(r *Request) { r.GPUs, r.Cores = []GPU{mib(0, "NVIDIA H200", 143771, 143000)}, 2 }, true},
		{"24 on 80 GB", func(r *Request) { r.GPUMemory, r.SwarmSize, r.Nodes = 80e9, 24, NodesMax }, false},
		{"eight on 40 GB", func(r *Request) { r.GPUMemory, r.Nodes = 40e9, "8" }, false},
		{"moments that move to the host", func(r *Request) { r.GPUMemory, r.Settings.OptimizerOffload = 141e9, true }, false},
		{"weights that move to the host", func(r *Request) { r.GPUMemory, r.Settings.ParamOffload = 141e9, true }, false},
	} {
		r := open()
		r.Share = ShareLease
		tt.change(&r)
		p := plan(t, r)
		if p.KeepMemory != tt.keep || p.Share != ShareLease {
			t.Errorf("%s: %s, memory kept %v", tt.name, p.Share, p.KeepMemory)
		}
		if kept := p.Kept(); tt.keep != (kept > 0) {
			t.Errorf("%s: an update counts %d bytes of the generation's", tt.name, kept)
		}
		if all := int64(p.Nodes) * p.PerNode.Budget; tt.keep && all > p.Capacity-p.Rooms[0].ReserveBytes-p.Rooms[0].OthersBytes {
			t.Errorf("%s: budgets of %d on a card of %d", tt.name, all, p.Capacity)
		}
	}
}

// Without leases a node's phases share its budget. The memory that a generation keeps counts in the update, or the
// node frees it.
func TestWhatAGenerationKeepsCountsInTheUpdate(t *testing.T) {
	r := open()
	r.GPUMemory = 40e9
	if p := plan(t, r); p.KeepMemory || p.Kept() != 0 {
		t.Errorf("40 GB: %d bytes kept", p.Kept())
	}
	r.Settings.CUDAGraphs = false
	if p := plan(t, r); !p.KeepMemory || p.Kept() != 0 {
		t.Errorf("40 GB without graphs: kept %v, %d bytes", p.KeepMemory, p.Kept())
	}
	r.Settings.CUDAGraphs, r.GPUMemory = true, 32e9
	p := plan(t, r)
	keys := int64(2*12*768*4) * (4*768 + 32*255) // of 4 prompts and 32 completions
	if kept := p.Kept(); !p.KeepMemory || kept < keys || kept > keys*5/4 {
		t.Errorf("32 GB: kept %v, %d bytes, the KV cache is %d", p.KeepMemory, kept, keys)
	}
	if f := p.PerNode; f.Update <= p.Kept() || f.Budget < f.Resident+f.Update {
		t.Errorf("32 GB: %+v", f)
	}
}
