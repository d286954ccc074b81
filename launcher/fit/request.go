// Package fit decides how many nodes run on a host, on which devices, and why. It estimates a node's memory. It is
// pure: devices, a model, settings and the guides' table are its input, and a plan is its output. It does no I/O,
// reads no clock and starts no goroutine.
package fit

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
)

// ErrDoesNotFit reports too little memory, or no GPU, for the request (exit code 3).
var ErrDoesNotFit = errors.New("does not fit")

// ErrRequest reports an invalid request (exit code 2).
var ErrRequest = errors.New("bad request")

// Device kinds and sharing modes.
const (
	DeviceAuto = "auto"
	DeviceCPU  = "cpu"
	DeviceCUDA = "cuda"

	ShareAuto   = "auto"   // static or mps, if all nodes' whole memory fits at once and each has a core; else lease
	ShareStatic = "static" // every node may compute at any time
	ShareLease  = "lease"  // nodes compute as their phases' memory allows
	ShareMPS    = "mps"    // as static, through NVIDIA MPS
)

// Node counts as words.
const (
	NodesAuto = "auto" // the guides' count
	NodesMax  = "max"  // as many as fit into memory
)

// GPU is a device available to a plan. Memory is in bytes.
type GPU struct {
	Index       int    `json:"index"`
	UUID        string `json:"uuid,omitempty"` // empty: a hypothetical card
	Name        string `json:"name"`
	MemoryTotal int64  `json:"memory_total_bytes"`
	MemoryFree  int64  `json:"memory_free_bytes"`
	Unified     bool   `json:"unified,omitempty"` // its memory is the host's
	MIG         bool   `json:"mig,omitempty"`     // split into instances; never used
}

// Request is the whole input of a plan. Memory is in bytes.
type Request struct {
	Device       string // auto, cpu or cuda; auto uses a GPU if there is one
	GPUs         []GPU
	NoGPU        string // why there is no usable GPU, for the error text
	Cores        int
	Memory       int64 // available on the host
	HostMemory   int64 // > 0: plan for a host with this much available, instead of Memory
	Apart        bool  // each engine is a process of its own and shares no pages
	Shm          int64 // free in /dev/shm; below 0: unknown
	GPUMemory    int64 // > 0: plan for one hypothetical card of this size instead of GPUs
	GPULimit     int64 // > 0: treat each GPU as a card of at most this size
	MinGPUMemory int64 // ignore GPUs with less free memory

	Model      configs.Model
	Settings   Settings
	Measured   *Measured     // nil: no measurement
	Companions []Companion   // the swarm's other models: the plan gives every node the most that any model needs
	Table      []configs.GPU // guide 4's table

	Nodes       string // auto, max or a number
	Share       string // auto, static, lease or mps
	MPS         bool   // NVIDIA MPS is possible on the GPUs: auto prefers it to static
	SwarmSize   int    // most nodes of the experiment
	GPUsPerNode int    // GPUs of one node, each with a full replica; 0 means 1
	CPUFallback bool   // a model above smallModel may train on the CPU if no GPU holds it

	alternative bool // a plan for Plan.Changes, which needs no Changes itself
}

// Settings are the experiment's keys that determine a node's memory.
type Settings struct {
	Precision             string // fp32, tf32, bf16, fp16; auto is tf32
	GradientCheckpointing bool
	OptimizerOffload      bool
	ParamOffload          bool
	CUDAGraphs            bool
	Beta                  float64 // above 0 the node keeps a copy of the first weights
	NumIterations         int     // above 1 an update keeps a copy of weights and moments
	SortedSampling        bool    // top_k or top_p
	GenerateOnly          bool    // no updates: no gradients, moments or reference

	Prompts      int // the paper's I
	Generations  int // G
	Sequences    int // per update: (I+J)·G
	PromptTokens int // longest prompt
	NewTokens    int // longest completion

	MicroBatch                int // most sequences of a forward pass; 0: all
	AutoBatchSize             bool
	GradientAccumulationSteps int // fewest micro-batches of an update
}

// Origins of a Measured.
const (
	OriginProfile = "profile" // swarm profile
	OriginTold    = "told"    // stated by the user for their own trainer
)

// Measured is the measured memory of a node. A phase's bytes are its base plus its slope times the sequences at a
// time: completions in generate, rows of a forward pass in update. On a GPU, Resident and the phases count the
// allocator's memory. On a CPU they count the process without its interpreter, as in event.Memory. CUDA context and
// interpreter are additional.
type Measured struct {
	Resident                          int64
	GenerateBase, GeneratePerSequence int64
	UpdateBase, UpdatePerSequence     int64

	Origin     string  // one of Origin*; else a run
	Torch, GPU string  // versions and device of the measurement
	Time       float64 // Unix seconds
}

// smallModel is the maximum number of parameters that --device auto trains on a CPU: guide 4 found GPT-2 200 times
// slower there.
const smallModel = 50_000_000

// check sets defaults and returns the requested number of nodes, 0 for auto and max.
func (r *Request) check() (int, error) {
	if r.SwarmSize < 1 {
		return 0, fmt.Errorf("%w: swarm_size %d: allowed: at least 1", ErrRequest, r.SwarmSize)
	}
	if !known(r.Model.Shape) {
		return 0, fmt.Errorf("%w: model %q: its shape is unknown", ErrRequest, r.Model.Name)
	}
	if err := r.checkCompanions(); err != nil {
		return 0, err
	}
	s := r.Model.Shape
	if r.GPUMemory < 0 || r.GPULimit < 0 || r.MinGPUMemory < 0 {
		return 0, fmt.Errorf("%w: GPU memory %d: allowed: a size above 0, such as 40GB", ErrRequest, min(r.GPUMemory, r.GPULimit, r.MinGPUMemory))
	}
	if r.HostMemory < 0 {
		return 0, fmt.Errorf("%w: host memory %d: allowed: a size above 0, such as 12.7GB", ErrRequest, r.HostMemory)
	}
	if r.HostMemory > 0 {
		r.Memory = r.HostMemory
	}
	r.Cores = max(1, r.Cores)
	r.GPUsPerNode = max(1, r.GPUsPerNode)
	r.Settings.check(s.Context)
	if r.GPUMemory > 0 || r.GPULimit > 0 {
		if r.Device == DeviceCPU {
			return 0, fmt.Errorf("%w: a GPU memory size conflicts with device cpu. Try: --device cuda", ErrRequest)
		}
		r.Device = DeviceCUDA
	}
	if r.GPUMemory > 0 {
		r.GPUs = nil
		for i := range r.GPUsPerNode {
			r.GPUs = append(r.GPUs, GPU{Index: i, Name: "assumed " + units.BytesShort(r.GPUMemory), MemoryTotal: r.GPUMemory, MemoryFree: r.GPUMemory})
		}
	}
	if err := r.checkWords(); err != nil {
		return 0, err
	}
	return r.asked()
}

func (r *Request) checkWords() error {
	switch r.Device {
	case "", DeviceAuto, DeviceCPU, DeviceCUDA:
	default:
		return fmt.Errorf("%w: device %q: allowed: auto, cpu or cuda", ErrRequest, r.Device)
	}
	switch r.Share {
	case "":
		r.Share = ShareAuto
	case ShareAuto, ShareStatic, ShareLease:
	case ShareMPS:
		if r.Device == DeviceCPU {
			return fmt.Errorf("%w: share mps needs a GPU, but the device is cpu. Try: --share auto", ErrRequest)
		}
	default:
		return fmt.Errorf("%w: share %q: allowed: auto, static, lease or mps", ErrRequest, r.Share)
	}
	return nil
}

// asked parses Nodes.
func (r *Request) asked() (int, error) {
	if r.Nodes == "" || r.Nodes == NodesAuto || r.Nodes == NodesMax {
		return 0, nil
	}
	n, err := strconv.Atoi(r.Nodes)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: nodes %q: allowed: auto, max or a number from 1", ErrRequest, r.Nodes)
	}
	if n > r.SwarmSize {
		return 0, fmt.Errorf("%w: %s requested, but the experiment's swarm_size is %d. Try: --nodes %d, or a larger swarm_size",
			ErrRequest, units.Plural(n, "node"), r.SwarmSize, r.SwarmSize)
	}
	return n, nil
}

// guideSequences is the size of guide 4's forward pass, and of an experiment's round: I·G and (I+J)·G.
const guideSequences = 64

// check sets defaults: guide 4's round of 64 sequences, and sequences that fill the context, a quarter of it
// completion.
func (s *Settings) check(context int) {
	context = max(2, context)
	if s.Generations <= 0 {
		s.Generations = 8
	}
	if s.Prompts <= 0 {
		s.Prompts = guideSequences / s.Generations
	}
	s.Prompts = max(1, s.Prompts)
	if s.Sequences <= 0 {
		s.Sequences = guideSequences
	}
	if s.NewTokens <= 0 {
		s.NewTokens = context / 4
	}
	s.NewTokens = max(1, min(s.NewTokens, context-1))
	if s.PromptTokens <= 0 || s.PromptTokens > context-s.NewTokens {
		s.PromptTokens = context - s.NewTokens
	}
	s.NumIterations = max(1, s.NumIterations)
	s.GradientAccumulationSteps = max(1, s.GradientAccumulationSteps)
}

// half reports whether the engine multiplies matrices in 16 bits.
func (s *Settings) half() bool { return s.Precision == "bf16" || s.Precision == "fp16" }
