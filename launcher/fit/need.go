package fit

import (
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
)

// Sources of a plan's bytes.
const (
	SourceMeasured = "measured"
	SourceEstimate = "estimate"
)

// need computes the memory of one node on a device, measured or estimated, and its possible batch sizes.
type need struct {
	request *Request
	device  string
	ranks   int  // GPUs that split the node's sequences
	keeps   bool // the node keeps CUDA graphs and their caches during the update
}

func (r *Request) need(device string) need {
	ranks := 1
	if device == DeviceCUDA {
		ranks = r.GPUsPerNode
	}
	return need{request: r, device: device, ranks: ranks}
}

// Least returns the estimated memory of one node with the smallest allowed numbers of sequences at a time. It leaves
// Budget unset.
func Least(m configs.Model, device string, s Settings) Footprint {
	n := (&Request{Model: m, Settings: s, GPUsPerNode: 1}).need(device)
	return n.at(n.least())
}

// wanted returns the sizes that the settings request: all completions of a round together, and micro-batches within
// both micro_batch and gradient_accumulation_steps.
func (n need) wanted() configs.AtOnce {
	s := n.request.Settings
	return configs.AtOnce{
		Generate: divide(s.Prompts*s.Generations, n.ranks),
		Update:   configs.MicroBatchOf(divide(s.Sequences, n.ranks), s.GradientAccumulationSteps, s.MicroBatch),
	}
}

// least returns the smallest allowed sizes. On a CPU the update's size does not change its memory.
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

// at returns the footprint for these sizes.
func (n need) at(sizes configs.AtOnce) Footprint { return Sum(n.parts(sizes)) }

// parts returns the memory components of a node for these sizes, which at sums up.
func (n need) parts(sizes configs.AtOnce) []Component {
	parts := n.partsOf(n.request.Model, n.request.Measured, sizes)
	for _, c := range n.request.Companions {
		parts = largest(parts, n.partsOf(c.Model, c.Measured, sizes))
	}
	if n.unified() {
		parts = append([]Component{{Name: nameContext, Phase: PhaseResident, Bytes: n.host(), Note: "host memory, which the GPU shares"}}, parts...)
	}
	return parts
}

// partsOf returns the components of a node with that model.
func (n need) partsOf(model configs.Model, m *Measured, sizes configs.AtOnce) []Component {
	if n.device == DeviceCPU {
		sizes.Update = max(sizes.Update, n.request.Settings.Sequences) // CPU passes ignore micro_batch
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

// apart moves shared memory into each node's own if the engines are not forks of one engine host.
func (n need) apart(parts []Component) []Component {
	for i := range parts {
		if n.request.Apart && parts[i].Phase == PhaseShared {
			parts[i].Phase = PhaseResident
		}
	}
	return parts
}

// kept returns the memory of the last generation that is still held during an update, or nothing if the node frees
// it. A profile does not measure this memory, so it is always an estimate.
func (n need) kept(e estimate, m *Measured, sizes configs.AtOnce) []Component {
	told := m != nil && m.Origin == OriginTold // the user's own trainer
	if !n.keeps || told || n.request.Settings.GenerateOnly {
		return nil
	}
	c := e.caches(int64(sizes.Generate))
	if c.Bytes == 0 {
		return nil
	}
	return []Component{c}
}

// from describes the source of the measurement.
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

// source returns the source of the bytes, for Plan.Source.
func (n need) source() string {
	if n.request.Measured != nil {
		return SourceMeasured
	}
	return SourceEstimate
}

// modest is the largest micro-batch that needs no spare memory, in rows of a forward pass. An automatic micro-batch
// (micro_batch 0) grows beyond modest only if memory is plentiful.
const modest = 4

// pick halves the wanted sizes until each phase uses at most limit. If a phase does not fit, it returns false with
// that phase's least size. An automatic micro-batch exceeds modest only if an update uses at most ease.
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

// chooses reports whether the plan chooses the micro-batch.
func (n need) chooses() bool {
	return n.request.Settings.MicroBatch == 0 && n.request.Settings.AutoBatchSize && n.device == DeviceCUDA
}

// meagre reports whether sizes are far below the wanted ones: single sequences, or only a part of one prompt's
// completions.
func (n need) meagre(sizes configs.AtOnce) bool {
	wanted := n.wanted()
	return sizes.Update < min(2, wanted.Update) || sizes.Generate < min(n.request.Settings.Generations, wanted.Generate)
}

// unified reports whether the GPUs have no memory of their own. A node's host memory then counts on its GPU.
func (n need) unified() bool {
	return n.device == DeviceCUDA && slices.ContainsFunc(n.request.GPUs, func(g GPU) bool { return g.Unified })
}

// hostShared returns the host memory that the nodes of a GPU plan share.
func (n need) hostShared() int64 {
	if n.request.Apart || n.told() {
		return 0
	}
	return cudaHost
}

// told reports whether the nodes are the user's own trainers.
func (n need) told() bool {
	return n.request.Measured != nil && n.request.Measured.Origin == OriginTold
}

// host returns the host memory of one node of a GPU plan, without hostShared.
func (n need) host() int64 {
	s, p := n.request.Settings, n.request.Model.Shape.Parameters
	bytes := NodeProcess + int64(n.ranks)*cudaOwn + int64(n.ranks-1)*cudaHost // ranks after the first are not forks
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

// Host memory of GPU engines. These figures are assumptions, not measurements. PyTorch's issue 113326 reports 322 MB
// after importing torch 2.2, and 117 MB more for a first tensor on a GPU. CUDA's lazy loading was on, as torch
// enables it since 1.13. Each figure has a margin of more than half. Without lazy loading each engine's own context
// takes 1 to 2 GB more.
const (
	cudaHost    = 500_000_000   // Python with torch built for CUDA: the engine host's pages, which all engines share
	cudaOwn     = 250_000_000   // an engine's CUDA context, library buffers, and Python pages that it writes to
	cudaTrainer = 1_500_000_000 // the user's own trainer, with its interpreter
)

// divide returns n / by, rounded up.
func divide(n, by int) int { return (n + by - 1) / by }
