// Package fit decides how many nodes run on a host, where, and why. It is pure: devices, a model and the guides' table go in, a
// plan comes out; no I/O, no clocks, no goroutines. It imports configs only.
package fit

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/sapo-swarm/swarm/configs"
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

	ShareStatic = "static" // every node may compute whenever it likes
	ShareLease  = "lease"  // at most Slots nodes compute at a time
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

// Request is everything a plan depends on.
type Request struct {
	Device    string // auto, cpu or cuda; auto takes a GPU where there is one
	GPUs      []GPU
	NoGPU     string // why there is no usable GPU, for the error's text
	Cores     int
	Memory    int64 // available host memory, bytes
	GPUMemory int64 // > 0: plan for one card of this size instead of GPUs

	Model     configs.Model
	Table     []configs.GPU // guide 4's table
	Nodes     string        // auto, max or a number
	SwarmSize int           // most nodes the experiment has
	Sequences int           // in one forward pass: micro_batch, or (I+J)·G; 0: the guide's 64
	Tokens    int           // longest sequence, prompt and completion; 0: the model's context
}

// smallModel bounds, in parameters, what --device auto trains on a CPU: guide 4 finds GPT-2 200 times slower there.
const smallModel = 50_000_000

const guideSequences = 64 // guide 4's forward pass

// check fills in what may be left out and returns the number of nodes asked for, 0 for auto and max.
func (r *Request) check() (int, error) {
	if r.SwarmSize < 1 {
		return 0, fmt.Errorf("%w: swarm_size %d: at least 1", ErrRequest, r.SwarmSize)
	}
	if r.Model.Shape.Parameters <= 0 || r.Model.Shape.Layers <= 0 || r.Model.Shape.Width <= 0 {
		return 0, fmt.Errorf("%w: model %q: its shape is unknown", ErrRequest, r.Model.Name)
	}
	if r.GPUMemory < 0 {
		return 0, fmt.Errorf("%w: GPU memory %d: bytes above 0, such as 40GB", ErrRequest, r.GPUMemory)
	}
	r.Cores = max(1, r.Cores)
	if r.Sequences <= 0 {
		r.Sequences = guideSequences
	}
	if r.Tokens <= 0 || r.Tokens > r.Model.Shape.Context {
		r.Tokens = max(1, r.Model.Shape.Context)
	}
	if r.GPUMemory > 0 {
		if r.Device == DeviceCPU {
			return 0, fmt.Errorf("%w: a GPU's memory was given for device cpu. Try: --device cuda", ErrRequest)
		}
		r.Device = DeviceCUDA
		r.GPUs = []GPU{{Name: "assumed " + bytes(r.GPUMemory), MemoryTotal: r.GPUMemory, MemoryFree: r.GPUMemory}}
	}
	switch r.Device {
	case "", DeviceAuto, DeviceCPU, DeviceCUDA:
	default:
		return 0, fmt.Errorf("%w: device %q: auto, cpu or cuda", ErrRequest, r.Device)
	}
	if r.Nodes == "" || r.Nodes == NodesAuto || r.Nodes == NodesMax {
		return 0, nil
	}
	n, err := strconv.Atoi(r.Nodes)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: nodes %q: auto, max or a number from 1", ErrRequest, r.Nodes)
	}
	if n > r.SwarmSize {
		return 0, fmt.Errorf("%w: %d nodes asked for, but the experiment's swarm_size is %d. Try: --nodes %d, or a larger swarm_size",
			ErrRequest, n, r.SwarmSize, r.SwarmSize)
	}
	return n, nil
}

// bytes is n in GB of 10^9 bytes, or MB where it is small, as the guides count.
func bytes(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
	return strconv.FormatFloat(float64(n/1e8)/10, 'f', -1, 64) + " GB"
}

// count is n things in words that agree.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
