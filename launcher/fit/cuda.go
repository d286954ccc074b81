package fit

import (
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
)

// planCUDA fits nodes into GPUs. It takes the number of nodes from the rule's advice, the memory, or the request. It
// decides where the nodes run, how they share GPUs, and how many sequences they process at a time.
func (r *Request) planCUDA(asked int, gpus []GPU) (Plan, error) {
	n := r.need(DeviceCUDA)
	all := cards(gpus, r.GPUsPerNode, n)
	if len(all) == 0 {
		return Plan{}, fmt.Errorf("%w: a node needs %d GPUs (gpus_per_node), and there are %d. Try: --gpus-per-node %d",
			ErrDoesNotFit, r.GPUsPerNode, len(gpus), len(gpus))
	}
	holds, advice := 0, 0
	for i := range all {
		all[i].fill(r, n)
		holds += all[i].holds
		advice += all[i].advice
	}
	if holds == 0 {
		return Plan{}, r.tooSmall(n, all[0], gpus)
	}
	host, err := r.hostHolds(n)
	if err != nil {
		return Plan{}, err
	}
	if asked > min(holds, host.nodes) {
		return Plan{}, r.tooMany(n, asked, holds, host, gpus)
	}
	byAdvice := asked == 0 && r.Nodes != NodesMax
	room := holds
	if byAdvice {
		room = advice
	}
	nodes := min(r.SwarmSize, room, host.nodes)
	if asked > 0 {
		nodes = asked
	}
	least := n.at(n.least())
	p := Plan{
		Device: DeviceCUDA, GPUs: gpus, Nodes: nodes, Rule: all[0].rule, Source: n.source(), HostBytes: n.host(), Shared: n.hostShared(), Guide: r.Model.GuideMemory,
		Placement: place(all, nodes, least.Resident+least.Transient, byAdvice),
	}
	if n.unified() {
		p.HostBytes = 0
	}
	r.share(&p, n, all)
	r.explain(&p, asked, byAdvice, room, holds, host, all)
	return p, nil
}

// share decides how the placed nodes share their GPUs and how many sequences they process at a time. It sets the
// plan's fields that depend on both.
func (r *Request) share(p *Plan, n need, all []card) {
	resident := n.at(n.least()).Resident
	static, lease := limits(all, resident, func(c *card) int64 { return c.capacity })
	easyStatic, easyLease := limits(all, resident, (*card).easy)
	sizes, fits := n.pick(static, easyStatic)
	p.Share = r.Share
	if p.Share == ShareAuto {
		p.Share = ShareLease
		// A process that waits for its GPU keeps a core busy. With more processes than cores, they slow each other
		// down. Forward passes of one sequence leave a GPU idle, so taking turns is faster. A node alone on its GPU
		// never waits for other nodes.
		if fits && (static == lease || r.cores() >= p.Nodes && !n.meagre(sizes)) {
			p.Share = ShareStatic
		}
		if p.Share == ShareStatic && r.MPS && crowded(all) {
			p.Share, p.ShareWhy = ShareMPS, "all nodes fit at once; swarm up tries NVIDIA MPS, and uses static if its test fails"
		}
	}
	if p.Share == ShareLease {
		sizes, _ = n.pick(lease, easyLease)
		sizes = r.crowd(n, sizes, all, resident)
	}
	p.KeepMemory = r.keepsMemory(n, sizes, p.Share, easyStatic)
	n.keeps = p.KeepMemory
	r.setSizes(p, n, sizes)
	budget := int64(1) << 62
	for i := range all {
		c := &all[i]
		if c.nodes == 0 {
			continue
		}
		phases, slots := r.open(p, c)
		budget = min(budget, phases)
		p.Slots += slots
	}
	p.PerNode.Budget = resident + budget
	p.Threads = max(1, r.Cores/max(1, p.Slots))
}

// crowded reports whether some card has several nodes and no card exceeds the limit of MPS.
func crowded(all []card) bool {
	most := 0
	for _, c := range all {
		most = max(most, c.nodes)
	}
	return most > 1 && most <= mpsClients
}

// open adds a card's Room to the plan. It returns the bytes that the phases of one node may use there, and how many
// nodes compute at a time.
func (r *Request) open(p *Plan, c *card) (phases int64, slots int) {
	resident, transient := p.PerNode.Resident, max(1, p.PerNode.Transient)
	index := c.Index
	room := Room{GPU: &index, Nodes: c.nodes, OthersBytes: c.MemoryTotal - c.MemoryFree, ReserveBytes: reserve(c.MemoryTotal)}
	slots = c.nodes
	phases = c.capacity/int64(c.nodes) - resident
	holding := int64(slots)
	if p.Share == ShareLease {
		room.LeaseBytes = c.capacity - int64(c.nodes)*resident
		slots = c.slots(c.capacity, resident, transient, r.cores())
		if slots < c.nodes && slots == r.cores() {
			room.Slots = slots // memory would allow more
		}
		if !p.KeepMemory { // else all nodes hold their part at the same time
			phases, holding = room.LeaseBytes/int64(slots), int64(slots)
		}
	}
	p.Rooms = append(p.Rooms, room)
	if expected := int64(c.nodes)*resident + holding*transient; p.Capacity == 0 || expected*p.Capacity > p.Expected*c.MemoryTotal {
		p.Expected, p.Capacity = expected, c.MemoryTotal
	}
	return phases, slots
}

// cores returns the host's cores, or a large number if the card is hypothetical.
func (r *Request) cores() int {
	if r.GPUMemory > 0 {
		return 1 << 20
	}
	return r.Cores
}

// setSizes sets the node's memory and batch sizes for the given numbers of sequences at a time.
func (r *Request) setSizes(p *Plan, n need, sizes configs.AtOnce) {
	p.Breakdown = n.parts(sizes)
	p.PerNode = Sum(p.Breakdown)
	if sizes.Update < r.Settings.Sequences {
		p.MicroBatch = sizes.Update
	}
	if all := r.Settings.Prompts * r.Settings.Generations; sizes.Generate < divide(all, n.ranks) {
		p.GenerateBatch = sizes.Generate
	}
}

// explain sets Rule, Limit and Why.
func (r *Request) explain(p *Plan, asked int, byAdvice bool, room, holds int, host hostRoom, all []card) {
	switch {
	case asked > 0:
		p.Rule = "asked for"
		p.Limit = fmt.Sprintf("--nodes %d; memory holds %d", asked, min(holds, host.nodes))
	case room >= r.SwarmSize && host.nodes >= r.SwarmSize:
		p.Limit = fmt.Sprintf("experiment's swarm size %d", r.SwarmSize)
	case host.nodes < min(room, r.SwarmSize):
		p.Limit = host.what
	case byAdvice && min(holds, host.nodes) > room:
		p.Limit = fmt.Sprintf("the recommended count (docs/GUIDES.md); memory holds %d (--nodes max)", min(holds, host.nodes, r.SwarmSize))
	case r.Share == ShareMPS && holds == mpsClients*len(all):
		p.Limit = fmt.Sprintf("%d MPS clients per GPU", mpsClients)
	default:
		p.Limit = "GPU memory"
	}
	if !byAdvice && asked == 0 {
		p.Rule = "memory, " + p.Source
	}
	each := p.PerNode.Resident + p.PerNode.Transient
	p.Why = fmt.Sprintf("%s of %s on %s (%s): %s has %s resident and takes %s more while it computes, %s in all%s; %s.",
		units.Plural(p.Nodes, "node"), r.name(), used(all), p.Rule, "a node", units.BytesShort(p.PerNode.Resident), units.BytesShort(p.PerNode.Transient), units.BytesShort(each),
		r.guided(), describe(p.GPUs))
	if p.Share == ShareLease {
		p.Why += fmt.Sprintf(" Nodes take turns: %d %s at a time%s.", p.Slots, units.Verb(p.Slots, "compute"), r.byCores(p))
	}
	if p.Nodes < r.SwarmSize {
		p.Why += fmt.Sprintf(" The experiment's swarm has %d. Limit: %s.", r.SwarmSize, p.Limit)
	}
}

// byCores adds a note to Why if the number of cores, not memory, limits how many nodes compute.
func (r *Request) byCores(p *Plan) string {
	for _, room := range p.Rooms {
		if room.Slots > 0 {
			return fmt.Sprintf(", at most as many per GPU as the host has cores (%d)", r.Cores)
		}
	}
	return ""
}

// guided returns the guide's figure for a node, for comparison.
func (r *Request) guided() string {
	if memory := r.Model.GuideMemory.Total(); memory > 0 {
		return fmt.Sprintf(" (guide 4: %s)", units.BytesShort(memory))
	}
	return ""
}

// hostRoom is the number of nodes of a GPU plan that fit on the host, and the limiting resource.
type hostRoom struct {
	nodes  int
	what   string
	detail string // the figures behind nodes
}

// shmRank is the size of the exchange buffers of a data-parallel rank in /dev/shm: NCCL's if GPUs have no peer
// access, gloo's on a CPU. The size is an assumption. A container's default of 64 MB is known to be too small for
// NCCL.
const shmRank = 64 << 20

// hostHolds returns how many nodes fit into host memory and /dev/shm. A plan for a hypothetical card checks the host
// only if the request gives HostMemory.
func (r *Request) hostHolds(n need) (hostRoom, error) {
	free := hostRoom{nodes: 1 << 30}
	if r.GPUMemory > 0 && r.HostMemory == 0 {
		return free, nil
	}
	usable := percent(r.Memory, hostShare)
	free.nodes = int(max(0, usable-n.hostShared()) / n.host())
	free.what, free.detail = "host memory", fmt.Sprintf("%s may be used, all nodes share %s, and each takes %s", units.BytesShort(usable), units.BytesShort(n.hostShared()), units.BytesShort(n.host()))
	if free.nodes < 1 {
		return free, fmt.Errorf("%w: a node on a GPU takes %s of host memory, of which %s is available and %s may be used. Try: free some memory%s",
			ErrDoesNotFit, units.BytesShort(n.hostShared()+n.host()), units.BytesShort(r.Memory), units.BytesShort(usable), r.withoutOffload())
	}
	if n.ranks > 1 && r.Shm >= 0 && r.GPUMemory == 0 {
		if byShm := int(r.Shm / (int64(n.ranks) * shmRank)); byShm < free.nodes {
			free.nodes, free.what, free.detail = byShm, "/dev/shm", units.BytesShort(r.Shm)
		}
		if free.nodes < 1 {
			return free, fmt.Errorf("%w: %d GPUs of one node exchange through %s of /dev/shm, which has %s. "+
				"Try: docker run --shm-size=1g, or --gpus-per-node 1", ErrDoesNotFit, n.ranks, units.BytesShort(int64(n.ranks)*shmRank), units.BytesShort(r.Shm))
		}
	}
	return free, nil
}

func (r *Request) withoutOffload() string {
	if r.Settings.OptimizerOffload || r.Settings.ParamOffload {
		return ", or no offload"
	}
	return ""
}
