package plan

import (
	"fmt"
	"io"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
)

// Print prints the plan and its reasons.
func (p Planned) Print(w *table.Page) {
	plan := p.Plan
	printDevices(w, p)
	for i, m := range p.All() {
		what := "model    "
		if i > 0 {
			what = "         "
		}
		fmt.Fprintf(w, "%s %s, %s parameters\n", what, m.Name, units.Group(m.Shape.Parameters))
	}
	if p.Config.Models != "" {
		fmt.Fprintf(w, "          in turn: %s\n", p.Config.Models)
	}
	fmt.Fprintf(w, "nodes     %d of %d\n", plan.Nodes, p.Config.SwarmSize)
	fmt.Fprintf(w, "why       %s\n", plan.Why)
	fmt.Fprintf(w, "rule      %s\n", plan.Rule)
	fmt.Fprintf(w, "limit     %s\n", plan.Limit)
	if plan.Shared > 0 {
		fmt.Fprintf(w, "shared    %s of host memory, once for all nodes\n", units.Bytes(plan.Shared))
	}
	fmt.Fprintf(w, "per node  %s resident, %s transient, %s budget\n", units.Bytes(plan.PerNode.Resident), units.Bytes(plan.PerNode.Transient), units.Bytes(plan.PerNode.Budget))
	if plan.HostBytes > 0 {
		fmt.Fprintf(w, "          %s of host memory\n", units.Bytes(plan.HostBytes))
	}
	fmt.Fprintf(w, "share     %s: %d at a time, %s each\n", plan.Share, plan.Slots, units.Plural(plan.Threads, "CPU thread"))
	if plan.ShareWhy != "" {
		fmt.Fprintf(w, "          %s\n", plan.ShareWhy)
	}
	fmt.Fprintf(w, "at once   %s per micro-batch, %s\n", some(plan.MicroBatch, "sequence"), some(plan.GenerateBatch, "completion"))
	if plan.Device == fit.DeviceCUDA {
		what := "freed"
		if plan.KeepMemory {
			what = "kept"
		}
		fmt.Fprintf(w, "          cached memory is %s between phases\n", what)
	}
	share := 100 * float64(plan.Expected) / float64(max(1, plan.Capacity))
	where := ""
	if len(plan.Rooms) > 1 {
		where = " on the fullest GPU"
	}
	fmt.Fprintf(w, "expected  %s of %s at the peak%s (%.0f %%)\n", units.Bytes(plan.Expected), units.Bytes(plan.Capacity), where, share)
	for _, at := range plan.Placement {
		switch {
		case len(at.GPUs) > 1:
			fmt.Fprintf(w, "          %s on GPUs %s\n", at.Node, strings.Join(strings.Fields(strings.Trim(fmt.Sprint(at.GPUs), "[]")), ", "))
		case at.GPU != nil:
			fmt.Fprintf(w, "          %s on GPU %d\n", at.Node, *at.GPU)
		}
	}
	printRooms(w, plan)
	printBreakdown(w, p)
	if len(plan.Changes) > 0 {
		fmt.Fprintf(w, "\nChanges that would affect this:\n  %s\n", strings.Join(plan.Changes, "\n  "))
	}
}

func printDevices(w io.Writer, p Planned) {
	if p.Plan.Device == fit.DeviceCUDA {
		for _, d := range p.Plan.GPUs {
			fmt.Fprintf(w, "GPU %d     %s, %s, %s free\n", d.Index, d.Name, units.Bytes(d.MemoryTotal), units.Bytes(d.MemoryFree))
		}
		return
	}
	fmt.Fprintf(w, "device    CPU: %s, %s of memory, %s free", units.Plural(p.Host.Cores, "core"), units.Bytes(p.Host.MemoryTotal), units.Bytes(p.Host.MemoryAvailable))
	if p.Host.Reason != "" {
		reason, _ := fail.SplitRemedy(p.Host.Reason)
		fmt.Fprintf(w, " (no GPU: %s)", reason)
	}
	fmt.Fprintln(w)
}

// printRooms prints the memory that nodes share in turns, and the memory that they leave alone.
func printRooms(w io.Writer, plan fit.Plan) {
	for _, r := range plan.Rooms {
		name := "host"
		if r.GPU != nil {
			name = fmt.Sprintf("GPU %d", *r.GPU)
		}
		parts := []string{}
		if r.LeaseBytes > 0 {
			parts = append(parts, units.Bytes(r.LeaseBytes)+" for the phases of the nodes that compute")
		}
		if r.OthersBytes > 0 {
			parts = append(parts, units.Bytes(r.OthersBytes)+" used by other processes and the driver")
		}
		fmt.Fprintf(w, "%-9s %s\n", name, strings.Join(append(parts, units.Bytes(r.ReserveBytes)+" in reserve"), ", "))
	}
}

// printBreakdown prints a node's memory by component as guide 2 does, and guide 4's figures.
func printBreakdown(w *table.Page, p Planned) {
	f := p.Plan.PerNode
	sums := map[string]int64{fit.PhaseShared: f.Shared, fit.PhaseResident: f.Resident, fit.PhaseGenerate: f.Generate, fit.PhaseUpdate: f.Update}
	fmt.Fprintf(w, "\nMemory of one node (%s):\n", p.Plan.Source)
	t := table.New(table.Column{}, table.Column{Right: true}, table.Column{Wrap: true})
	t.Indent = 2
	phase := ""
	for _, c := range p.Plan.Breakdown {
		if c.Phase != phase {
			phase = c.Phase
			t.Add(phase, units.Bytes(sums[phase]))
		}
		t.Add("  "+c.Name, units.Bytes(c.Bytes), c.Note)
	}
	w.Table(t)
	if g := p.Plan.Guide; g.Total() > 0 && p.Plan.Device == fit.DeviceCUDA {
		fmt.Fprintf(w, "  guide 4 (docs/GUIDES.md) estimates %s: weights %s, forward pass %s, gradients and optimizer %s, working memory %s\n",
			units.Bytes(g.Total()), units.Bytes(g.Weights), units.Bytes(g.Forward), units.Bytes(g.GradientsAndOptimizer), units.Bytes(g.Working))
	}
}

// some formats the size of a batch. 0 means all.
func some(n int, noun string) string {
	if n == 0 {
		return "all " + units.Noun(n, noun)
	}
	return units.Plural(n, noun)
}
