// Package fit decides how many nodes run on a host, where, and why, and what one takes. It is pure: devices, a model,
// settings and the guides' table go in, a plan comes out; no I/O, no clocks, no goroutines. It imports configs only.
package fit

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
)

// ErrDoesNotFit says that there is not enough memory, or no GPU, for what was asked (exit code 3).
var ErrDoesNotFit = errors.New("does not fit")

// ErrRequest says that the request itself makes no sense (exit code 2).
var ErrRequest = errors.New("bad request")

// Kinds of device and ways of sharing one.
const (
	DeviceAuto = "auto"
	DeviceCPU  = "cpu"
	DeviceCUDA = "cuda"

	ShareAuto   = "auto"   // static, or mps, where every node's whole memory fits at once and each has a core; else lease
	ShareStatic = "static" // every node may compute whenever it likes
	ShareLease  = "lease"  // nodes compute as their phases' memory allows
	ShareMPS    = "mps"    // as static, through NVIDIA MPS
)

// Nodes as words instead of a number.
const (
	NodesAuto = "auto" // the guides' count
	NodesMax  = "max"  // what memory holds
)

// GPU is a device that may be used. Memory is in bytes.
type GPU struct {
	Index       int    `json:"index"`
	UUID        string `json:"uuid,omitempty"` // empty: a card that isn't there
	Name        string `json:"name"`
	MemoryTotal int64  `json:"memory_total_bytes"`
	MemoryFree  int64  `json:"memory_free_bytes"`
	MIG         bool   `json:"mig,omitempty"` // split into instances; never used
}

// Request is everything a plan depends on. Memory is in bytes.
type Request struct {
	Device       string // auto, cpu or cuda; auto takes a GPU where there is one
	GPUs         []GPU
	NoGPU        string // why there is no usable GPU, for the error's text
	Cores        int
	Memory       int64 // available on the host
	HostMemory   int64 // > 0: plan for a host on which this much is available instead of Memory
	Apart        bool  // engines are started each for itself, and share no pages
	Shm          int64 // free in /dev/shm; below 0: unknown
	GPUMemory    int64 // > 0: plan for one card of this size instead of GPUs
	GPULimit     int64 // > 0: use each GPU as if it were a card of at most this size
	MinGPUMemory int64 // GPUs with less free memory are left out

	Model      configs.Model
	Settings   Settings
	Measured   *Measured     // nil: nothing was measured
	Companions []Companion   // the swarm's other models: every node is planned for as if it took the most of any
	Table      []configs.GPU // guide 4's table

	Nodes       string // auto, max or a number
	Share       string // auto, static, lease or mps
	MPS         bool   // NVIDIA MPS can be tried on the GPUs: auto prefers it to static
	SwarmSize   int    // most nodes the experiment has
	GPUsPerNode int    // GPUs of one node, each with a whole replica; 0 is 1
	CPUFallback bool   // a model above smallModel may train on the CPU where no GPU can hold it

	alternative bool // a plan for Plan.Changes, which needs none itself
}

// Settings are the experiment's keys that decide what a node takes.
type Settings struct {
	Precision             string // fp32, tf32, bf16, fp16; auto is tf32
	GradientCheckpointing bool
	OptimizerOffload      bool
	ParamOffload          bool
	CUDAGraphs            bool
	Beta                  float64 // above 0 a copy of the first weights is kept
	NumIterations         int     // above 1 an update keeps a copy of weights and moments
	SortedSampling        bool    // top_k or top_p
	GenerateOnly          bool    // no updates: no gradients, moments or reference

	Prompts      int // the paper's I
	Generations  int // G
	Sequences    int // of an update: (I+J)·G
	PromptTokens int // longest prompt
	NewTokens    int // longest completion

	MicroBatch                int // most sequences a forward pass; 0: all
	AutoBatchSize             bool
	GradientAccumulationSteps int // least micro-batches an update
}

// Where a Measured comes from.
const (
	OriginProfile = "profile" // swarm profile
	OriginTold    = "told"    // by whoever runs a trainer of their own
)

// Measured is what a node's memory was measured to be. A phase's bytes are its base plus its slope times the sequences
// at a time: completions in generate, rows of a forward pass in update. Resident and phases are the allocator's on a
// GPU, the process's without its interpreter on a CPU, as in event.Memory: what a CUDA context or an interpreter takes
// comes on top.
type Measured struct {
	Resident                          int64
	GenerateBase, GeneratePerSequence int64
	UpdateBase, UpdatePerSequence     int64

	Origin     string  // one of Origin*, or of a run
	Torch, GPU string  // what it was measured with
	Time       float64 // Unix seconds
}

// smallModel bounds, in parameters, what --device auto trains on a CPU: guide 4 finds GPT-2 200 times slower there.
const smallModel = 50_000_000

// check fills in what may be left out and returns the number of nodes asked for, 0 for auto and max.
func (r *Request) check() (int, error) {
	if r.SwarmSize < 1 {
		return 0, fmt.Errorf("%w: swarm_size %d: at least 1", ErrRequest, r.SwarmSize)
	}
	if !known(r.Model.Shape) {
		return 0, fmt.Errorf("%w: model %q: its shape is unknown", ErrRequest, r.Model.Name)
	}
	if err := r.checkCompanions(); err != nil {
		return 0, err
	}
	s := r.Model.Shape
	if r.GPUMemory < 0 || r.GPULimit < 0 || r.MinGPUMemory < 0 {
		return 0, fmt.Errorf("%w: GPU memory %d: bytes above 0, such as 40GB", ErrRequest, min(r.GPUMemory, r.GPULimit, r.MinGPUMemory))
	}
	if r.HostMemory < 0 {
		return 0, fmt.Errorf("%w: host memory %d: bytes above 0, such as 12.7GB", ErrRequest, r.HostMemory)
	}
	if r.HostMemory > 0 {
		r.Memory = r.HostMemory
	}
	r.Cores = max(1, r.Cores)
	r.GPUsPerNode = max(1, r.GPUsPerNode)
	r.Settings.check(s.Context)
	if r.GPUMemory > 0 || r.GPULimit > 0 {
		if r.Device == DeviceCPU {
			return 0, fmt.Errorf("%w: a GPU's memory was given for device cpu. Try: --device cuda", ErrRequest)
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
		return fmt.Errorf("%w: device %q: auto, cpu or cuda", ErrRequest, r.Device)
	}
	switch r.Share {
	case "":
		r.Share = ShareAuto
	case ShareAuto, ShareStatic, ShareLease:
	case ShareMPS:
		if r.Device == DeviceCPU {
			return fmt.Errorf("%w: share mps is for nodes on a GPU, and the device is cpu. Try: --share auto", ErrRequest)
		}
	default:
		return fmt.Errorf("%w: share %q: auto, static, lease or mps", ErrRequest, r.Share)
	}
	return nil
}

// asked reads Nodes.
func (r *Request) asked() (int, error) {
	if r.Nodes == "" || r.Nodes == NodesAuto || r.Nodes == NodesMax {
		return 0, nil
	}
	n, err := strconv.Atoi(r.Nodes)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: nodes %q: auto, max or a number from 1", ErrRequest, r.Nodes)
	}
	if n > r.SwarmSize {
		return 0, fmt.Errorf("%w: %s asked for, but the experiment's swarm_size is %d. Try: --nodes %d, or a larger swarm_size",
			ErrRequest, units.Plural(n, "node"), r.SwarmSize, r.SwarmSize)
	}
	return n, nil
}

// guideSequences is guide 4's forward pass, and an experiment's round: I·G and (I+J)·G.
const guideSequences = 64

// check fills in what may be left out: guide 4's round of 64 sequences, and whole contexts, a quarter of them
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

// half tells whether matrices are multiplied in 16 bits.
func (s *Settings) half() bool { return s.Precision == "bf16" || s.Precision == "fp16" }
