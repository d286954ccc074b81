package coordinator

import (
	"context"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// peaks are the maximum memory of a run's nodes, by phase.
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

// attribute removes from resident the memory of a generation that nodes kept between their phases. In a footprint
// it belongs to the generation, whose first call allocated it.
func (p *peaks) attribute(plan fit.Plan) {
	p.resident -= min(plan.Kept(), max(0, p.resident-(plan.PerNode.Resident-plan.PerNode.Context)))
}

// freshen raises a measured footprint to what this run's nodes needed.
func (c *Run) freshen(ctx context.Context, seen peaks) {
	if c.p.Plan.Source != fit.SourceMeasured || seen.resident == 0 || c.p.Trainer.Command != "" {
		return
	}
	if len(c.p.All()) > 1 { // the peaks would mix different models
		return
	}
	key := plan.FootprintKey(c.p)
	key.Torch = c.python.Torch
	seen.attribute(c.p.Plan)
	generations := int64(c.p.Config.MostOwn() * c.p.Config.NumGenerations)
	if batch := int64(c.p.Plan.GenerateBatch); batch > 0 {
		generations = min(generations, batch)
	}
	rows := fit.RowsAtOnce(c.p.Plan.Device == fit.DeviceCUDA, c.p.Config.MaxPromptLength, c.p.Config.MaxCompletionLength, c.p.Config.NumGenerations)
	rows = min(seen.microBatch, rows)
	raised, err := c.store.RaiseFootprint(ctx, key, seen.resident, seen.generate, generations, seen.update, int64(rows), event.Now())
	if err != nil {
		c.h.Logger.Error("the measured footprint was not updated", "error", err)
	}
	if raised {
		c.h.Logger.Info("nodes took more memory than swarm profile measured: the stored footprint was raised", "model", key.Model, "device", key.GPU)
	}
}
