package fit

import (
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
)

// Phases of a Component.
const (
	PhaseShared   = "shared" // held once by all nodes of the host together
	PhaseResident = "resident"
	PhaseGenerate = "generate"
	PhaseUpdate   = "update"
)

// Estimate returns a node's memory by formula, on cpu or cuda, with the given numbers of sequences at a time: every
// item that exists at a phase's peak. Sequences count with their maximum length, so real ones, mostly shorter, need
// less. The formulas follow the engine's code (node/policy/engine). They count the activations of a transformer's
// backward pass tensor by tensor, like Korthikanti et al. (arXiv:2205.05198, section 4). The figures for a CPU were
// compared with measurements (cmd/swarm/estimate_test.go), those for a GPU were not.
func Estimate(m configs.Model, device string, s Settings, at configs.AtOnce) []Component {
	s.check(m.Shape.Context)
	e := newEstimate(m.Shape, s, device == DeviceCUDA)
	at.Generate = max(1, at.Generate)
	at.Update = max(1, at.Update)
	parts := e.resident()
	parts = append(parts, e.generate(int64(at.Generate))...)
	if s.GenerateOnly { // the engine allocates gradients and moments at the first update
		return parts
	}
	return append(parts, e.update(int64(at.Update))...)
}

// Cap returns the limit of torch's allocator in bytes: the budget without the context, which the allocator does not
// see.
func (f Footprint) Cap() int64 { return max(1, f.Budget-f.Context) }

// Sum adds up components. It leaves Budget unset.
func Sum(parts []Component) Footprint {
	var f Footprint
	for _, c := range parts {
		switch c.Phase {
		case PhaseGenerate:
			f.Generate += c.Bytes
		case PhaseUpdate:
			f.Update += c.Bytes
		case PhaseShared:
			f.Shared += c.Bytes
		default:
			f.Resident += c.Bytes
			if c.Name == nameContext || c.Name == nameHost {
				f.Context += c.Bytes
			}
		}
	}
	f.Transient = max(f.Generate, f.Update)
	return f
}

// estimate holds the sizes in the formulas, with the names of the engine's comments.
type estimate struct {
	layers, d, f, q, kv, heads, vocabulary int64 // q, kv: total width of the queries, of the keys
	parameters                             int64
	gated                                  bool // Llama, Qwen2, Qwen3: three feed-forward matrices, norms in several operations, rotary positions
	cuda                                   bool
	s                                      Settings
}

func newEstimate(m configs.Shape, s Settings, cuda bool) estimate {
	e := estimate{
		layers: int64(m.Layers), d: int64(m.Width), f: int64(m.InnerWidth()), heads: int64(m.Heads), vocabulary: int64(m.Vocabulary),
		parameters: m.Parameters, gated: m.Rotary(), cuda: cuda, s: s,
	}
	e.q, e.kv = int64(m.Heads*m.HeadWidth()), int64(m.KeyValueHeads()*m.HeadWidth())
	if !cuda {
		e.s.Precision = "fp32" // the engine's only precision there
	}
	return e
}

const (
	nameContext = "context"
	nameHost    = "engine host"
	nameKept    = "kept graphs and caches"

	// A process's CUDA context with torch's kernels: guide 4's "working memory" of GPT-2. Not measured.
	cudaContext = 500_000_000
	// A cuBLAS workspace, which torch takes from its own allocator: 32 MiB, because the engine sets
	// CUBLAS_WORKSPACE_CONFIG to :4096:8 (environment.py). Older torch adds a separate 1 MiB for cuBLASLt, newer
	// torch shares the block.
	cudaWorkspace = 33 << 20

	interpreter = 260_000_000 // engine host: Python with torch on a CPU, and library pages that engines use; 250 MB with torch 1.13
	forkOwn     = 8_000_000   // host pages that an engine writes to, which it then owns; 7 MB with torch 1.13
	NodeProcess = 50_000_000  // the Go process beside an engine
	cpuBLAS     = 2_000_000   // a BLAS's own buffers, without library pages
)

// context returns the memory of a node's processes before they load a model, outside torch's allocators.
func (e *estimate) context() []Component {
	if e.cuda {
		return []Component{{Name: nameContext, Phase: PhaseResident, Bytes: cudaContext, Note: "CUDA context, torch's kernels"}}
	}
	return []Component{
		{Name: nameHost, Phase: PhaseShared, Bytes: interpreter, Note: "Python with torch, shared by all nodes' engines"},
		{Name: nameContext, Phase: PhaseResident, Bytes: forkOwn + NodeProcess, Note: "an engine's unshared Python memory, and the Go process"},
	}
}

// resident returns the memory that a node holds between its phases.
func (e *estimate) resident() []Component {
	var parts []Component
	add := func(name string, bytes int64, note string) {
		parts = append(parts, Component{Name: name, Phase: PhaseResident, Bytes: bytes, Note: note})
	}
	parts = e.context()
	if e.cuda {
		n := e.workspaces()
		add("cuBLAS", n*cudaWorkspace, fmt.Sprintf("%d workspaces of 33 MiB, from torch's allocator", n))
	} else {
		add("BLAS", cpuBLAS, "work buffers")
	}
	p := e.parameters
	if e.cuda && e.s.ParamOffload {
		add("weights", 0, "on the host between phases")
	} else {
		add("weights", 4*p, "4 B x parameters")
	}
	switch {
	case e.s.GenerateOnly:
		return parts
	case e.cuda && (e.s.OptimizerOffload || e.s.ParamOffload):
		add("Adam's moments", 0, "on the host")
	default:
		add("Adam's moments", 8*p, "2 x 4 B x parameters")
	}
	if e.s.Beta > 0 && !(e.cuda && e.s.ParamOffload) {
		add("reference weights", 4*p, "4 B x parameters, for beta above 0")
	}
	return parts
}

// workspaces returns the number of cuBLAS workspaces: one per thread and stream. Backward passes run on autograd's
// thread, and graphs are captured on a separate stream.
func (e *estimate) workspaces() int64 {
	n := int64(1)
	if !e.s.GenerateOnly {
		n++
	}
	if e.s.CUDAGraphs {
		n++
	}
	return n
}

// unparked returns the memory that moves from the host to the GPU when a phase begins.
func (e *estimate) unparked(phase string) (parts []Component) {
	if !e.cuda || !e.s.ParamOffload {
		return nil
	}
	add := func(name string, bytes int64) {
		parts = append(parts, Component{Name: name, Phase: phase, Bytes: bytes, Note: "back from the host"})
	}
	add("weights", 4*e.parameters)
	if phase == PhaseUpdate && !e.s.OptimizerOffload {
		add("Adam's moments", 8*e.parameters)
	}
	if phase == PhaseUpdate && e.s.Beta > 0 {
		add("reference weights", 4*e.parameters)
	}
	return parts
}

// slack is the allocator's overhead in percent of a phase, from rounded and fragmented blocks. For torch on CUDA it
// is an assumption, not a measurement.
const slack = 10

func percent(bytes, share int64) int64 { return bytes / 100 * share }

func total(parts []Component) int64 {
	var sum int64
	for _, c := range parts {
		sum += c.Bytes
	}
	return sum
}
