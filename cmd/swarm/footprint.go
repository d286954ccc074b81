package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// footprintSettings are what a node's memory depends on beside its model and the sequences at a time. Their JSON is part of a
// footprint's key: a field that is added makes every older footprint another setting's, as it should.
type footprintSettings struct {
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

// footprintKey is what a node of p would be measured under on this host; torch is left open.
func footprintKey(p planned) store.FootprintKey {
	c := p.config
	gpuName := cpuName
	onGPU := c.Device != fit.DeviceCPU && len(p.host.GPUs) > 0
	if onGPU {
		gpuName = mostFree(p).Name
	}
	text, err := json.Marshal(footprintSettings{
		Precision: c.ResolvedPrecision(onGPU), GradientCheckpointing: c.GradientCheckpointing, OptimizerOffload: c.OptimizerOffload,
		ParamOffload: c.ParamOffload, CUDAGraphs: c.CUDAGraphs && onGPU, Reference: c.Beta > 0, Snapshot: c.NumIterations > 1,
		SortedSampling: c.TopK > 0 || c.TopP < 1, MaxPromptLength: c.MaxPromptLength, MaxCompletionLength: c.MaxCompletionLength,
		Ranks: c.GPUsPerNode,
	})
	if err != nil {
		panic(fmt.Sprintf("footprint settings: %v", err)) // strings, booleans and whole numbers always encode
	}
	return store.FootprintKey{Model: c.Model, Settings: string(text), GPU: gpuName}
}

// cpuName is the device of a footprint that was measured on a CPU.
const cpuName = "cpu"

// measured is the footprint of p's nodes, nil where none was measured. One of another torch than the nodes will have doesn't count;
// where there is no torch to ask, the newest does.
func measured(ctx context.Context, g *globals, p planned) (*fit.Measured, error) {
	reader, err := store.OpenReader(ctx, g.home.Database())
	if err != nil {
		// None yet, or of an older swarm; what is wrong with one that can't be read, a run says before it begins.
		g.logger.Debug("no measured footprints", "reason", err)
		return nil, nil
	}
	defer reader.Close()
	key := footprintKey(p)
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
			python, err := g.python.Find(ctx)
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

// peaks are the most that the nodes of a run took, by phase.
type peaks struct {
	resident, generate, update int64
	microBatch                 int
}

func (p *peaks) see(e event.Event) {
	if m := e.Memory; m != nil {
		p.resident = max(p.resident, m.ResidentBytes)
		p.generate = max(p.generate, m.GenerateBytes)
		if m.UpdateBytes > p.update {
			p.update, p.microBatch = m.UpdateBytes, m.MicroBatch
		}
	}
}

// attribute leaves out of resident what nodes kept of a generation between their phases: in a footprint it is the generation's, whose first
// call had it.
func (p *peaks) attribute(plan fit.Plan) {
	p.resident -= min(plan.Kept(), max(0, p.resident-(plan.PerNode.Resident-plan.PerNode.Context)))
}

// freshen keeps a measured footprint true: what this run took beyond it counts from now on.
func (c *coordinator) freshen(ctx context.Context, seen peaks) {
	if c.p.plan.Source != fit.SourceMeasured || seen.resident == 0 || c.p.trainer.command != "" {
		return
	}
	if len(c.p.all()) > 1 { // the peaks are of nodes with different models
		return
	}
	key := footprintKey(c.p)
	key.Torch = c.python.Torch
	seen.attribute(c.p.plan)
	generations := int64(c.p.config.MostOwn() * c.p.config.NumGenerations)
	if batch := int64(c.p.plan.GenerateBatch); batch > 0 {
		generations = min(generations, batch)
	}
	rows := fit.RowsAtOnce(c.p.plan.Device == fit.DeviceCUDA, c.p.config.MaxPromptLength, c.p.config.MaxCompletionLength, c.p.config.NumGenerations)
	rows = min(seen.microBatch, rows)
	raised, err := c.store.RaiseFootprint(ctx, key, seen.resident, seen.generate, generations, seen.update, int64(rows), event.Now())
	if err != nil {
		c.g.logger.Error("the measured footprint was not renewed", "error", err)
	}
	if raised {
		c.g.logger.Info("nodes took more memory than swarm profile measured: the footprint has been raised", "model", key.Model, "device", key.GPU)
	}
}
