package fit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
)

// usable returns the GPUs that nodes may use, the one with most free memory first.
func (r *Request) usable() []GPU {
	gpus := []GPU{}
	for _, g := range r.GPUs {
		if !g.MIG {
			g.MemoryFree = max(0, min(g.MemoryFree, g.MemoryTotal))
			gpus = append(gpus, g)
		}
	}
	slices.SortFunc(gpus, func(a, b GPU) int {
		return cmp.Or(cmp.Compare(b.MemoryFree, a.MemoryFree), cmp.Compare(a.Index, b.Index))
	})
	return gpus
}

// card is a GPU while nodes are placed on it.
type card struct {
	GPU
	holds  int // nodes by memory alone
	advice int // nodes by the guide, at most holds
	rule   string
	nodes  int // placed
}

func newCard(g GPU, table []configs.GPU, model string, need Footprint, fromGuide bool) card {
	c := card{GPU: g, holds: int(g.MemoryFree / (need.Resident + need.Transient))}
	c.advice, c.rule = c.holds, "estimate"
	if fromGuide {
		c.rule = "guide memory"
	}
	if row, below := guideRow(table, model, g.MemoryFree); row != nil {
		c.advice = min(c.holds, row.Nodes[model])
		c.rule = guideRule(row, below, g)
	}
	return c
}

func planCUDA(r Request, asked int, gpus []GPU) (Plan, error) {
	need, fromGuide := cudaFootprint(r.Model, r.Sequences)
	each := need.Resident + need.Transient
	cards := make([]card, len(gpus))
	holds, advice := 0, 0
	for i, g := range gpus {
		cards[i] = newCard(g, r.Table, r.Model.Name, need, fromGuide)
		holds += cards[i].holds
		advice += cards[i].advice
	}
	free := describe(gpus)
	if holds == 0 {
		return Plan{}, fmt.Errorf("%w: a %s node takes %s and %s. Try: a larger GPU, a smaller --model, or --device cpu",
			ErrDoesNotFit, r.Model.Name, bytes(each), free)
	}
	if asked > holds {
		return Plan{}, fmt.Errorf("%w: %s of %s at %s each take %s, but %s, enough for %d. Try: --nodes auto, or --nodes %d",
			ErrDoesNotFit, count(asked, "node"), r.Model.Name, bytes(each), bytes(int64(asked)*each), free, holds, holds)
	}
	byAdvice := asked == 0 && r.Nodes != NodesMax
	room := holds
	if byAdvice {
		room = advice
	}
	n := min(r.SwarmSize, room)
	if asked > 0 {
		n = asked
	}
	p := Plan{
		Device: DeviceCUDA, GPUs: gpus, Nodes: n, Share: ShareStatic, PerNode: need, Rule: cards[0].rule,
		Slots: n, Threads: max(1, r.Cores/n), Placement: place(cards, n, each, byAdvice),
	}
	p.PerNode.Budget = budget(cards)
	switch {
	case asked > 0:
		p.Rule = "asked for"
		p.Limit = fmt.Sprintf("--nodes %d; memory holds %d", asked, holds)
	case room >= r.SwarmSize:
		p.Limit = fmt.Sprintf("experiment's swarm size %d", r.SwarmSize)
	case byAdvice && holds > advice:
		p.Limit = fmt.Sprintf("the guide's count; memory holds %d (--nodes max)", min(holds, r.SwarmSize))
	default:
		p.Limit = "GPU memory"
	}
	if !byAdvice && asked == 0 {
		p.Rule = "memory: " + bytes(each) + " a node"
	}
	p.Why = fmt.Sprintf("%s of %s on %s: a node takes %s (%s resident, %s while it computes), and %s (%s).",
		count(n, "node"), r.Model.Name, used(cards), bytes(each), bytes(need.Resident), bytes(need.Transient), free, p.Rule)
	if n < r.SwarmSize {
		p.Why += fmt.Sprintf(" The experiment's swarm has %d; this is decided by: %s.", r.SwarmSize, p.Limit)
	}
	return p, nil
}

// place gives each node the GPU that then has most free memory and room by its rule; ties go to the lower index.
func place(cards []card, n int, each int64, byAdvice bool) []Placement {
	placement := make([]Placement, n)
	for i := range placement {
		var best *card
		for j := range cards {
			c := &cards[j]
			room := c.holds
			if byAdvice {
				room = c.advice
			}
			if c.nodes >= room {
				continue
			}
			if best == nil || c.left(each) > best.left(each) || c.left(each) == best.left(each) && c.Index < best.Index {
				best = c
			}
		}
		best.nodes++
		index := best.Index
		placement[i] = Placement{Node: NodeName(i), GPU: &index}
	}
	return placement
}

func (c *card) left(each int64) int64 { return c.MemoryFree - int64(c.nodes)*each }

// budget is an equal share of the fullest GPU's free memory.
func budget(cards []card) int64 {
	var least int64
	for _, c := range cards {
		if c.nodes > 0 {
			if share := c.MemoryFree / int64(c.nodes); least == 0 || share < least {
				least = share
			}
		}
	}
	return least
}

func describe(gpus []GPU) string {
	if len(gpus) == 1 {
		return fmt.Sprintf("%s has %s free of %s", gpus[0].Name, bytes(gpus[0].MemoryFree), bytes(gpus[0].MemoryTotal))
	}
	var free int64
	for _, g := range gpus {
		free += g.MemoryFree
	}
	return fmt.Sprintf("%d GPUs have %s free, the largest %s", len(gpus), bytes(free), bytes(gpus[0].MemoryFree))
}

func used(cards []card) string {
	n := 0
	name := ""
	for _, c := range cards {
		if c.nodes > 0 {
			n++
			name = c.Name
		}
	}
	if n == 1 {
		return name
	}
	return count(n, "GPU")
}
