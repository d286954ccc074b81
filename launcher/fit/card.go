package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

// mpsClients is the maximum number of client processes of one MPS server (NVIDIA's MPS documentation, since Volta; CUDA
// 13 raises it to 60).
const mpsClients = 48

// reserve returns the bytes of a GPU that a plan leaves free. The driver and torch's libraries use memory beside
// contexts, and allocations of several processes fragment memory. The amount is an assumption, not a measurement.
func reserve(total int64) int64 { return max(200_000_000, total/50) }

// usable returns the GPUs available to nodes, sorted by free memory, largest first. If there is none, it returns the
// reason.
func (r *Request) usable() (gpus []GPU, reason string) {
	var most *GPU
	var largest int64
	for _, g := range r.GPUs {
		if g.MIG {
			continue
		}
		g.MemoryFree = max(0, min(g.MemoryFree, g.MemoryTotal))
		if g.Unified {
			g.MemoryFree = min(g.MemoryFree, r.Memory)
		}
		if r.GPULimit > 0 {
			g.MemoryFree = max(0, min(g.MemoryFree, r.GPULimit))
			g.MemoryTotal = min(g.MemoryTotal, r.GPULimit)
		}
		largest = max(largest, g.MemoryTotal)
		if g.MemoryFree >= r.MinGPUMemory {
			gpus = append(gpus, g)
		}
		if most == nil || g.MemoryFree > most.MemoryFree {
			most = &g
		}
	}
	slices.SortFunc(gpus, func(a, b GPU) int {
		return cmp.Or(cmp.Compare(b.MemoryFree, a.MemoryFree), cmp.Compare(a.Index, b.Index))
	})
	switch {
	case len(gpus) > 0:
		return gpus, ""
	case most != nil && r.MinGPUMemory > largest:
		return nil, fmt.Sprintf("none has %s free (--min-gpu-memory); the largest has %s in all. Try: a smaller --min-gpu-memory",
			units.BytesShort(r.MinGPUMemory), units.BytesShort(largest))
	case most != nil && r.MinGPUMemory > 0:
		return nil, fmt.Sprintf("none has %s free (--min-gpu-memory); %s has %s. Try: --wait-for-gpu 60m, or a smaller --min-gpu-memory",
			units.BytesShort(r.MinGPUMemory), most.Name, units.BytesShort(most.MemoryFree))
	case r.NoGPU != "":
		return nil, r.NoGPU
	}
	return nil, "none found"
}

// card is the GPU, or the GPUs, of one node while New places nodes. With several GPUs, each holds every node's
// replica, so the GPU with the least free memory counts.
type card struct {
	GPU
	gpus     []int
	capacity int64 // for nodes
	holds    int   // nodes that memory allows
	advice   int   // nodes that the rule advises, at most holds
	rule     string
	nodes    int // placed
}

// cards makes groups of per GPUs, in the order of gpus, so that GPUs with similar free memory form a group. An
// incomplete last group stays unused. Unified memory has the limits of host memory, too.
func cards(gpus []GPU, per int, n need) []card {
	var all []card
	for group := range slices.Chunk(gpus, per) {
		if len(group) < per {
			break
		}
		c := card{GPU: group[per-1]} // least free
		for _, g := range group {
			c.gpus = append(c.gpus, g.Index)
		}
		c.Index = c.gpus[0]
		if per > 1 {
			c.Name = fmt.Sprintf("%d GPUs", per)
		}
		c.capacity = c.MemoryFree - reserve(c.MemoryTotal)
		if c.Unified {
			c.capacity = min(c.capacity, percent(c.MemoryFree, hostShare)-n.hostShared())
		}
		c.capacity = max(0, c.capacity)
		all = append(all, c)
	}
	return all
}

// fill sets the number of nodes that a card holds and that the rule advises.
func (c *card) fill(r *Request, n need) {
	least := n.at(n.least())
	each := least.Resident + least.Transient
	switch {
	case c.capacity < each:
		c.holds = 0
	case r.Share == ShareStatic || r.Share == ShareMPS:
		c.holds = int(c.capacity / each)
	default:
		c.holds = int((c.capacity - least.Transient) / max(1, least.Resident))
	}
	if r.Share == ShareMPS {
		c.holds = min(c.holds, mpsClients)
	}
	c.advice, c.rule = c.holds, "estimate"
	if r.Measured != nil {
		c.rule = "measured footprint"
		return
	}
	if row, below := guideRow(r.Table, r.Model.Name, c.MemoryFree); row != nil {
		c.advice, c.rule = min(c.holds, row.Nodes[r.Model.Name]), guideRule(row, below, c.GPU)
	} else if memory := r.Model.GuideMemory.Total(); memory > 0 {
		c.advice, c.rule = min(c.holds, int(c.MemoryFree/memory)), "guide memory"
		if c.advice == 0 && c.holds > 0 {
			c.advice, c.rule = 1, "estimate: below the recommended "+units.BytesShort(memory)+" a node"
		}
	}
}

// easy returns the card's bytes that optional speed gains may use: up to seven eighths of its memory. Above that,
// guide 4 recommends fewer nodes (70 GB of 80).
func (c *card) easy() int64 { return min(c.capacity, c.MemoryFree-c.MemoryTotal/8) }

// slots returns how many of the placed nodes compute at a time when they take turns. Both the capacity and the number
// of cores limit it.
func (c *card) slots(capacity, resident, transient int64, cores int) int {
	free := capacity - int64(c.nodes)*resident
	return max(1, min(c.nodes, int(free/max(1, transient)), cores))
}

func (c *card) room(byAdvice bool) int {
	if byAdvice {
		return c.advice
	}
	return c.holds
}

func (c *card) left(each int64) int64 { return c.capacity - int64(c.nodes)*each }

// place puts each node on the card with the most memory left among the cards that accept another node by the rule. On
// a tie, the lower index wins. place counts the nodes of each card. Placement.GPUs is set only for a node with
// several GPUs.
func place(all []card, n int, each int64, byAdvice bool) []Placement {
	placement := make([]Placement, n)
	for i := range placement {
		var best *card
		for j := range all {
			c := &all[j]
			if c.nodes >= c.room(byAdvice) {
				continue
			}
			if best == nil || c.left(each) > best.left(each) || c.left(each) == best.left(each) && c.Index < best.Index {
				best = c
			}
		}
		best.nodes++
		index := best.Index
		placement[i] = Placement{Node: NodeName(i), GPU: &index}
		if len(best.gpus) > 1 {
			placement[i].GPUs = best.gpus
		}
	}
	return placement
}

// used names the cards that have nodes.
func used(all []card) string {
	var names []string
	for _, c := range all {
		if c.nodes > 0 && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, " and ")
}
