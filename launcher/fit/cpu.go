package fit

import (
	"fmt"

	"github.com/sapo-swarm/swarm/internal/units"
)

// hostShare is the part of available host memory that nodes may use, in percent. The rest is for the coordinator, the
// page cache and the estimate's error.
const hostShare = 90

// planCPU fits nodes into host memory: shared memory once + N × resident + slots × transient, because only the
// holders of a lease compute. With share static all of them compute. It halves the number of sequences at a time
// until all wanted nodes fit with all cores busy, or the sizes are minimal.
func (r *Request) planCPU(asked int) (Plan, error) {
	want := r.SwarmSize
	if asked > 0 {
		want = asked
	}
	n := r.need(DeviceCPU)
	least := n.at(n.least())
	usable := percent(r.Memory, hostShare)
	memory := usable - least.Shared
	room := 0
	switch {
	case memory < least.Resident+least.Transient:
	case r.Share == ShareStatic:
		room = int(memory / (least.Resident + least.Transient))
	default:
		room = int((memory - least.Transient) / least.Resident)
	}
	if room == 0 || asked > room {
		return Plan{}, r.hostTooSmall(max(1, asked), room, least, usable)
	}
	nodes := min(want, room)
	busy := min(r.Cores, nodes)
	p := Plan{Device: DeviceCPU, GPUs: []GPU{}, Nodes: nodes, Share: ShareLease, Rule: "estimate", Source: n.source(), Guide: r.Model.GuideMemory}
	if r.Measured != nil {
		p.Rule = "measured footprint"
	}
	if r.Share == ShareStatic {
		p.Share, busy = ShareStatic, nodes
	}
	free := memory - int64(nodes)*least.Resident
	sizes, fits := n.pick(free/int64(busy), free)
	for ; !fits && busy > 1; sizes, fits = n.pick(free/int64(busy), free) {
		busy-- // no smaller size reduces the update's memory
	}
	r.setSizes(&p, n, sizes)
	p.Slots = max(1, min(busy, int(free/max(1, p.PerNode.Transient))))
	p.Threads = max(1, r.Cores/p.Slots)
	p.PerNode.Budget = p.PerNode.Resident + free/int64(p.Slots)
	at := Room{Nodes: nodes, OthersBytes: 0, ReserveBytes: r.Memory - usable}
	if p.Share == ShareLease {
		at.Slots, at.LeaseBytes = p.Slots, free
	}
	p.Rooms = []Room{at}
	p.Shared = least.Shared
	p.Expected, p.Capacity = p.Shared+int64(nodes)*p.PerNode.Resident+int64(p.Slots)*p.PerNode.Transient, r.Memory
	// With plenty of memory, a heap that keeps its memory has no cost.
	p.KeepMemory = p.Share == ShareStatic || p.Slots == p.Nodes || p.Expected <= p.Capacity/2
	for i := range nodes {
		p.Placement = append(p.Placement, Placement{Node: NodeName(i)})
	}
	switch {
	case asked > 0:
		p.Rule = "asked for"
		p.Limit = fmt.Sprintf("--nodes %d", asked)
	case nodes == r.SwarmSize:
		p.Limit = fmt.Sprintf("experiment's swarm size %d", r.SwarmSize)
	default:
		p.Limit = "host memory"
	}
	p.Why = fmt.Sprintf("%s of %s on the CPU: %sa node takes %s and %s more while it computes; %s of memory is available, and %d %s at a time "+
		"on %s with %s each.",
		units.Plural(nodes, "node"), r.name(), shared(p.Shared), units.BytesShort(p.PerNode.Resident), units.BytesShort(p.PerNode.Transient), units.BytesShort(r.Memory),
		p.Slots, units.Verb(p.Slots, "compute"), units.Plural(r.Cores, "core"), units.Plural(p.Threads, "thread"))
	if nodes < r.SwarmSize {
		p.Why += fmt.Sprintf(" The experiment's swarm has %d. Limit: %s.", r.SwarmSize, p.Limit)
	}
	return p, nil
}

func (r *Request) hostTooSmall(nodes, room int, need Footprint, usable int64) error {
	transient := need.Transient
	if r.Share == ShareStatic {
		transient *= int64(nodes)
	}
	remedy := "a smaller --model, or free some memory"
	if room > 0 {
		remedy = fmt.Sprintf("--nodes auto, or --nodes %d", room)
	}
	return fmt.Errorf("%w: %s of %s on this CPU take %s, but %s of host memory is available and %s of it may be used. Try: %s",
		ErrDoesNotFit, units.Plural(nodes, "node"), r.name(), units.BytesShort(need.Shared+int64(nodes)*need.Resident+transient), units.BytesShort(r.Memory),
		units.BytesShort(usable), remedy)
}

// shared describes the memory that all nodes of a host share.
func shared(n int64) string {
	if n == 0 {
		return ""
	}
	return "all share " + units.BytesShort(n) + ", "
}
