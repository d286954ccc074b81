package fit

import (
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
)

// Where a plan's bytes come from.
const (
	SourceMeasured = "measured"
	SourceEstimate = "estimate"
)

// need is what one node takes on a device, measured or by the estimate, and what it may have at work at a time.
type need struct {
	request *Request
	device  string
	ranks   int  // GPUs that share its sequences
	keeps   bool // it holds on to CUDA graphs and their caches while it updates
}

func (r *Request) need(device string) need {
	ranks := 1
	if device == DeviceCUDA {
		ranks = r.GPUsPerNode
	}
	return need{request: r, device: device, ranks: ranks}
}

// wanted are the sizes that settings ask for: all completions of a round together, and micro-batches no larger than
// micro_batch and small enough for gradient_accumulation_steps of them.
func (n need) wanted() configs.AtOnce {
	s := n.request.Settings
	return configs.AtOnce{
		Generate: divide(s.Prompts*s.Generations, n.ranks),
		Update:   configs.MicroBatchOf(divide(s.Sequences, n.ranks), s.GradientAccumulationSteps, s.MicroBatch),
	}
}

// least are the smallest sizes allowed. On a CPU an update's don't change what it takes.
func (n need) least() configs.AtOnce {
	least := n.wanted()
	if n.request.Settings.AutoBatchSize {
		least.Generate = 1
		if n.device == DeviceCUDA {
			least.Update = 1
		}
	}
	return least
}

// at is the footprint with so many sequences at work.
func (n need) at(sizes configs.AtOnce) Footprint { return Sum(n.parts(sizes)) }

// parts are the components of at.
func (n need) parts(sizes configs.AtOnce) []Component {
	parts := n.partsOf(n.request.Model, n.request.Measured, sizes)
	for _, c := range n.request.Companions {
		parts = largest(parts, n.partsOf(c.Model, c.Measured, sizes))
	}
	return parts
}

// partsOf are the components of a node with that model.
func (n need) partsOf(model configs.Model, m *Measured, sizes configs.AtOnce) []Component {
	if n.device == DeviceCPU {
		sizes.Update = max(sizes.Update, n.request.Settings.Sequences) // its passes don't look at micro_batch
	}
	e := newEstimate(model.Shape, n.request.Settings, n.device == DeviceCUDA)
	var parts []Component
	if m == nil {
		parts = n.apart(Estimate(model, n.device, n.request.Settings, sizes))
		return append(parts, n.kept(e, m, sizes)...)
	}
	if m.Origin != OriginTold {
		parts = n.apart(e.context())
	}
	sizes.Update = min(sizes.Update, int(e.most()))
	note := "measured: " + m.from()
	parts = append(parts, Component{Name: "between phases", Phase: PhaseResident, Bytes: m.Resident, Note: note})
	for _, p := range []struct {
		phase            string
		base, slope, num int64
		what             string
	}{
		{PhaseGenerate, m.GenerateBase, m.GeneratePerSequence, int64(sizes.Generate), "completions"},
		{PhaseUpdate, m.UpdateBase, m.UpdatePerSequence, int64(sizes.Update), "sequences"},
	} {
		whole := max(0, p.base+p.slope*p.num)
		parts = append(parts, Component{
			Name: "phase", Phase: p.phase, Bytes: whole, Note: fmt.Sprintf("%s, %d %s at a time", note, p.num, p.what),
		})
		if n.device == DeviceCUDA {
			parts = append(parts, Component{Name: "allocator", Phase: p.phase, Bytes: percent(whole, slack), Note: "fragmentation, 10 %"})
		}
	}
	return append(parts, n.kept(e, m, sizes)...)
}

// apart makes what nodes share each node's own, where their engines are no forks of one host.
func (n need) apart(parts []Component) []Component {
	for i := range parts {
		if n.request.Apart && parts[i].Phase == PhaseShared {
			parts[i].Phase = PhaseResident
		}
	}
	return parts
}

// kept is what an update finds taken by the generation before it, nothing where that gives its memory back. A profile
// does not measure it, so that it is an estimate always.
func (n need) kept(e estimate, m *Measured, sizes configs.AtOnce) []Component {
	told := m != nil && m.Origin == OriginTold // a trainer that is not ours
	if !n.keeps || told || n.request.Settings.GenerateOnly {
		return nil
	}
	c := e.caches(int64(sizes.Generate))
	if c.Bytes == 0 {
		return nil
	}
	return []Component{c}
}

// from says what was measured, where.
func (m *Measured) from() string {
	by := "a run"
	switch m.Origin {
	case OriginProfile:
		by = "swarm profile"
	case OriginTold:
		return "--node-memory"
	}
	if m.Torch != "" {
		by += ", torch " + m.Torch
	}
	if m.GPU != "" {
		by += ", " + m.GPU
	}
	return by
}

// source names where the bytes come from, for Plan.Source.
func (n need) source() string {
	if n.request.Measured != nil {
		return SourceMeasured
	}
	return SourceEstimate
}

// modest is the most rows of a forward pass that need no spare room: a micro-batch that is left open (micro_batch 0)
// grows beyond it only where memory stays easy.
const modest = 4

// pick returns the largest sizes, halved from the wanted ones, whose phases each take at most limit; false, and the
// least of a phase, where that takes more. A micro-batch that the user leaves open exceeds modest only if an update
// takes at most ease.
func (n need) pick(limit, ease int64) (configs.AtOnce, bool) {
	sizes, least := n.wanted(), n.least()
	for n.at(sizes).Generate > limit {
		if sizes.Generate <= least.Generate {
			return least, false
		}
		sizes.Generate = divide(sizes.Generate, 2)
	}
	for {
		update := n.at(sizes).Update
		switch {
		case update <= limit && (update <= ease || sizes.Update <= modest || !n.chooses()):
			return sizes, true
		case sizes.Update > least.Update:
			sizes.Update = divide(sizes.Update, 2)
		default:
			return configs.AtOnce{Generate: sizes.Generate, Update: least.Update}, update <= limit
		}
	}
}

// chooses tells whether the plan chooses the micro-batch.
func (n need) chooses() bool {
	return n.request.Settings.MicroBatch == 0 && n.request.Settings.AutoBatchSize && n.device == DeviceCUDA
}

// meagre tells whether sizes are far below the wanted ones: single sequences, or parts of one prompt's completions.
func (n need) meagre(sizes configs.AtOnce) bool {
	wanted := n.wanted()
	return sizes.Update < min(2, wanted.Update) || sizes.Generate < min(n.request.Settings.Generations, wanted.Generate)
}

// hostShared is what the nodes of a GPU plan take of host memory together, once.
func (n need) hostShared() int64 {
	if n.request.Apart || n.told() {
		return 0
	}
	return cudaHost
}

// told tells whether the nodes are trainers of the user's own.
func (n need) told() bool {
	return n.request.Measured != nil && n.request.Measured.Origin == OriginTold
}

// host is what one node of a GPU plan takes of host memory beyond hostShared.
func (n need) host() int64 {
	s, p := n.request.Settings, n.request.Model.Shape.Parameters
	bytes := NodeProcess + int64(n.ranks)*cudaOwn + int64(n.ranks-1)*cudaHost // ranks from the second on are no forks
	switch {
	case n.told():
		bytes = NodeProcess + int64(n.ranks)*cudaTrainer
	case n.request.Apart:
		bytes += cudaHost
	}
	if s.OptimizerOffload {
		bytes += int64(n.ranks) * 8 * p
	}
	if s.ParamOffload {
		bytes += int64(n.ranks) * 4 * p
		if !s.OptimizerOffload {
			bytes += int64(n.ranks) * 8 * p
		}
	}
	if s.NumIterations > 1 {
		bytes += int64(n.ranks) * 12 * p
	}
	return bytes
}

// What engines on a GPU take of the host: assumptions until they are measured. PyTorch's issue 113326 has 322 MB for
// torch 2.2 imported and 117 MB more for a first tensor on a GPU with CUDA's lazy loading, which torch asks for from
// 1.13 on: more than half of each is added. Without lazy loading a context takes 1 to 2 GB more, each engine's own.
const (
	cudaHost    = 500_000_000   // Python with torch built for CUDA: the engine host, whose pages all engines share
	cudaOwn     = 250_000_000   // an engine's CUDA context, buffers of its libraries, and pages of Python that it writes to
	cudaTrainer = 1_500_000_000 // a trainer that is not ours, with its interpreter
)

// divide rounds up.
func divide(n, by int) int { return (n + by - 1) / by }
