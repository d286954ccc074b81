package fit

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
)

// workspace is the size of a cuBLAS workspace in torch's allocator on Hopper, one per thread and stream that
// multiplies matrices.
const workspace = 32 << 20

// tight returns the size of a card that n nodes of a request fill to the last byte.
func tight(r Request, n int64) int64 {
	r.Settings.check(r.Model.Shape.Context)
	r.GPUsPerNode = 1
	f := r.need(DeviceCUDA).at(r.need(DeviceCUDA).least())
	needed := n * (f.Resident + f.Transient)
	total := needed + 200_000_000
	for total-reserve(total) < needed {
		total += (needed - (total - reserve(total)))
	}
	return total
}

// The memory of torch's allocator at a phase's peak fits under the engine's cap, on the tightest card too: weights,
// moments, cuBLAS's workspaces and the phase.
func TestTheCapHoldsWhatTorchAllocates(t *testing.T) {
	capped := 0
	rapid.Check(t, func(t *rapid.T) {
		r := request(rapid.SampledFrom([]configs.Model{gpt2, nano, qwen}).Draw(t, "model"))
		s := &r.Settings
		s.Precision = rapid.SampledFrom([]string{"tf32", "bf16", "fp16", "fp32"}).Draw(t, "precision")
		s.GradientCheckpointing = rapid.Bool().Draw(t, "checkpointing")
		s.OptimizerOffload = rapid.Bool().Draw(t, "optimizer offload")
		s.CUDAGraphs = rapid.Bool().Draw(t, "graphs")
		s.GenerateOnly = rapid.Bool().Draw(t, "only generates")
		s.AutoBatchSize = rapid.Bool().Draw(t, "auto batch size")
		s.MicroBatch = rapid.SampledFrom([]int{0, 1, 4, 16}).Draw(t, "micro batch")
		s.Beta = rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "beta")
		nodes := rapid.Int64Range(1, 8).Draw(t, "nodes")
		r.Nodes, r.Share, r.GPUMemory = NodesMax, ShareStatic, tight(r, nodes)
		p, err := New(r)
		if err != nil {
			t.Fatal(err)
		}
		if int64(p.Nodes) != nodes {
			t.Fatalf("%d nodes on a card for %d", p.Nodes, nodes)
		}
		parameters := r.Model.Shape.Parameters
		held, workspaces := 4*parameters, int64(1)
		if !s.GenerateOnly {
			workspaces++ // autograd's thread
			if !s.OptimizerOffload {
				held += 8 * parameters
			}
			if s.Beta > 0 {
				held += 4 * parameters
			}
		}
		if s.CUDAGraphs {
			workspaces++ // the capture stream
		}
		held += workspaces*workspace + max(p.PerNode.Generate, p.PerNode.Update)
		if cap := p.PerNode.Cap(); cap < held {
			t.Fatalf("a cap of %d bytes, and torch's allocator holds %d", cap, held)
		}
		if p.PerNode.Budget < p.PerNode.Resident+p.PerNode.Transient+50e6 {
			capped++
		}
	})
	if capped == 0 {
		t.Error("no plan was tight")
	}
}

// The cap excludes the context, measured or not. The context excludes cuBLAS, which is part of the measured allocator
// memory.
func TestTheContextIsOutsideTheCap(t *testing.T) {
	r := request(gpt2, mib(0, "Tesla T4", 15360, 15000))
	estimated := plan(t, r).PerNode
	if estimated.Context != cudaContext || estimated.Cap() != estimated.Budget-cudaContext {
		t.Errorf("estimated: %+v, cap %d", estimated, estimated.Cap())
	}
	r.Measured = &Measured{Resident: 2e9, UpdatePerSequence: 1e9, Origin: OriginProfile}
	if f := plan(t, r).PerNode; f.Resident != cudaContext+2e9 || f.Cap() != f.Budget-cudaContext {
		t.Errorf("measured: %+v, cap %d", f, f.Cap())
	}
}
