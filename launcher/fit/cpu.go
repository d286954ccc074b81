package fit

import "fmt"

// hostShare is the part of available host memory that nodes may take, in percent: the rest is the coordinator's, the page
// cache's and the estimate's error.
const hostShare = 90

// planCPU fits nodes into host memory: N × resident + slots × transient, for only the holders of a lease compute. The micro-batch is
// halved until every wanted node fits with all cores busy, or nothing is left to halve.
func planCPU(r Request, asked int) (Plan, error) {
	want := r.SwarmSize
	if asked > 0 {
		want = asked
	}
	memory := r.Memory / 100 * hostShare
	batch := r.Sequences
	need := cpuFootprint(r.Model, batch, r.Tokens)
	busy := int64(min(r.Cores, want))
	for int64(want)*need.Resident+busy*need.Transient > memory && batch > 1 {
		batch = (batch + 1) / 2
		need = cpuFootprint(r.Model, batch, r.Tokens)
	}
	room := holds(memory, need)
	if room == 0 || asked > room {
		least := int64(max(1, asked))*need.Resident + need.Transient
		remedy := "a smaller --model, or free some memory"
		if room > 0 {
			remedy = fmt.Sprintf("--nodes auto, or --nodes %d", room)
		}
		return Plan{}, fmt.Errorf("%w: %s of %s on this CPU take %s, but %s of host memory is available and %s of it may be used. Try: %s",
			ErrDoesNotFit, count(max(1, asked), "node"), r.Model.Name, bytes(least), bytes(r.Memory), bytes(memory), remedy)
	}
	n := min(want, room)
	slots := min(r.Cores, n)
	if need.Transient > 0 {
		slots = int(min(int64(slots), (memory-int64(n)*need.Resident)/need.Transient))
	}
	p := Plan{
		Device: DeviceCPU, GPUs: []GPU{}, Nodes: n, Share: ShareLease, PerNode: need, Rule: "estimate",
		Slots: slots, Threads: max(1, r.Cores/slots),
	}
	p.PerNode.Budget = need.Resident + need.Transient
	if batch < r.Sequences {
		p.MicroBatch = batch
	}
	for i := range n {
		p.Placement = append(p.Placement, Placement{Node: NodeName(i)})
	}
	switch {
	case asked > 0:
		p.Rule = "asked for"
		p.Limit = fmt.Sprintf("--nodes %d", asked)
	case n == r.SwarmSize:
		p.Limit = fmt.Sprintf("experiment's swarm size %d", r.SwarmSize)
	default:
		p.Limit = "host memory"
	}
	p.Why = fmt.Sprintf("%s of %s on the CPU: a node takes %s and %s more while it computes; %s of memory is available, and %s at a time on %s with %s each.",
		count(n, "node"), r.Model.Name, bytes(need.Resident), bytes(need.Transient), bytes(r.Memory),
		computes(slots), count(r.Cores, "core"), count(p.Threads, "thread"))
	if n < r.SwarmSize {
		p.Why += fmt.Sprintf(" The experiment's swarm has %d; this is decided by: %s.", r.SwarmSize, p.Limit)
	}
	return p, nil
}

// holds is how many nodes fit when one computes at a time.
func holds(memory int64, need Footprint) int {
	if memory < need.Resident+need.Transient {
		return 0
	}
	return int((memory - need.Transient) / need.Resident)
}

func computes(slots int) string {
	if slots == 1 {
		return "1 computes"
	}
	return fmt.Sprintf("%d compute", slots)
}
