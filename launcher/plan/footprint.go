package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// FootprintSettings are the settings that affect a node's memory, besides its model and the number of sequences.
// Their JSON is part of a footprint's key. Adding a field therefore invalidates all older footprints, as it should.
type FootprintSettings struct {
	Precision             string `json:"precision"`
	GradientCheckpointing bool   `json:"gradient_checkpointing"`
	OptimizerOffload      bool   `json:"optimizer_offload"`
	ParamOffload          bool   `json:"param_offload"`
	CUDAGraphs            bool   `json:"cuda_graphs"`
	Reference             bool   `json:"reference"`       // beta above 0
	Snapshot              bool   `json:"snapshot"`        // num_iterations above 1
	SortedSampling        bool   `json:"sorted_sampling"` // top_k or top_p
	MaxPromptLength       int    `json:"max_prompt_length"`
	MaxCompletionLength   int    `json:"max_completion_length"`
	Ranks                 int    `json:"ranks"`
}

// FootprintKey returns the key of p's nodes in this host's footprints, without the torch version.
func FootprintKey(p Planned) store.FootprintKey {
	c := p.Config
	gpuName := CPUName
	onGPU := c.Device != fit.DeviceCPU && len(p.Host.GPUs) > 0
	if onGPU {
		gpuName = mostFree(p)[0].Name
	}
	text, err := json.Marshal(FootprintSettings{
		Precision: c.ResolvedPrecision(onGPU), GradientCheckpointing: c.GradientCheckpointing, OptimizerOffload: c.OptimizerOffload,
		ParamOffload: c.ParamOffload, CUDAGraphs: c.CUDAGraphs && onGPU, Reference: c.Beta > 0, Snapshot: c.NumIterations > 1,
		SortedSampling: c.TopK > 0 || c.TopP < 1, MaxPromptLength: c.MaxPromptLength, MaxCompletionLength: c.MaxCompletionLength,
		Ranks: c.GPUsPerNode,
	})
	if err != nil {
		panic(fmt.Sprintf("footprint settings: %v", err)) // strings, booleans and integers always encode
	}
	return store.FootprintKey{Model: c.Model, Settings: string(text), GPU: gpuName}
}

// CPUName is the device of a footprint measured on the CPU.
const CPUName = "cpu"

// Measured returns the footprint of p's nodes, or nil if none was measured. It ignores footprints of a torch
// version other than the nodes'. If the nodes' version is unknown, it uses the newest footprint.
func Measured(ctx context.Context, h Host, p Planned) (*fit.Measured, error) {
	reader, err := store.OpenReader(ctx, h.Home.Database())
	if err != nil {
		// There is no database yet, or it is of an older swarm. If it is unreadable, a run reports why before it
		// starts.
		h.Logger.Debug("no measured footprints", "reason", err)
		return nil, nil
	}
	defer reader.Close()
	key := FootprintKey(p)
	found, err := reader.Footprints(ctx, key.Model, key.GPU)
	if err != nil {
		return nil, err
	}
	torch := ""
	for _, f := range found {
		if f.Settings != key.Settings {
			continue
		}
		if torch == "" {
			python, err := h.Python.Find(ctx)
			if err != nil && ctx.Err() != nil {
				return nil, err
			}
			if torch = python.Torch; err != nil {
				torch = f.Torch
			}
		}
		if f.Torch == torch {
			return &fit.Measured{
				Resident: f.Resident, GenerateBase: f.GenerateBase, GeneratePerSequence: f.GeneratePerSequence,
				UpdateBase: f.UpdateBase, UpdatePerSequence: f.UpdatePerSequence,
				Origin: fit.OriginProfile, Torch: f.Torch, GPU: f.GPU, Time: max(f.Profiled, f.Raised),
			}, nil
		}
	}
	return nil, nil
}

// mostFree returns a node's number of GPUs, those with the most free memory, or all if there are fewer.
func mostFree(p Planned) []gpu.GPU {
	sorted := slices.SortedFunc(slices.Values(p.Host.GPUs), func(a, b gpu.GPU) int { return cmp.Compare(b.MemoryFree, a.MemoryFree) })
	return sorted[:min(len(sorted), max(1, p.Config.GPUsPerNode))]
}
