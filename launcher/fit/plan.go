package fit

import "fmt"

// Plan is the answer; as JSON it is what `swarm plan -o json` prints.
type Plan struct {
	Device    string      `json:"device"` // cpu, cuda
	GPUs      []GPU       `json:"gpus"`   // considered, the one with most free memory first
	Nodes     int         `json:"nodes"`
	Rule      string      `json:"rule"` // what decided: guide table, guide memory, estimate
	Share     string      `json:"share"`
	PerNode   Footprint   `json:"per_node"`
	Limit     string      `json:"limit"` // what would change the answer
	Placement []Placement `json:"placement"`
	Why       string      `json:"why"` // for a person

	Slots      int `json:"slots"`       // nodes that may compute at once
	Threads    int `json:"threads"`     // of one engine
	MicroBatch int `json:"micro_batch"` // sequences a forward pass must not exceed; 0: the whole batch fits

	Rooms     []Room      `json:"rooms"`     // what the nodes share: one a GPU that is used, or one for the host on a CPU
	Breakdown []Component `json:"breakdown"` // of one node's memory
	Changes   []string    `json:"changes"`   // for a person: what would change the number of nodes
}

// Room is a GPU, or the host, as its nodes share it.
type Room struct {
	GPU         *int  `json:"gpu"`          // GPU.Index; null on a CPU
	Nodes       int   `json:"nodes"`        // placed here
	LeaseBytes  int64 `json:"lease_bytes"`  // for the phases of those that compute at one time; 0: no limit
	Slots       int   `json:"slots"`        // that may compute at one time; 0: no limit
	OthersBytes int64 `json:"others_bytes"` // in use by somebody else when this was planned
}

// Component is one item of a node's memory.
type Component struct {
	Name  string `json:"name"`
	Phase string `json:"phase"` // resident, generate, update
	Bytes int64  `json:"bytes"`
	Note  string `json:"note"` // the formula, or where the figure is from
}

// Footprint is one node's memory in bytes: of the GPU, or of the host on a CPU.
type Footprint struct {
	Resident  int64 `json:"resident_bytes"`  // context or interpreter, weights, gradients, Adam
	Transient int64 `json:"transient_bytes"` // activations, KV cache and logits of the running phase: the larger of the next two
	Generate  int64 `json:"generate_bytes"`
	Update    int64 `json:"update_bytes"`
	Budget    int64 `json:"budget_bytes"` // what a node may take at most
}

// Placement puts one node on a GPU.
type Placement struct {
	Node string `json:"node"`           // node_0 ...
	GPU  *int   `json:"gpu"`            // GPU.Index; null on a CPU
	GPUs []int  `json:"gpus,omitempty"` // all of them, where a node has several; GPU is the first
}

// NodeName is the id of the node with an index from 0.
func NodeName(index int) string { return fmt.Sprintf("node_%d", index) }

// New plans a request. Errors wrap ErrRequest or ErrDoesNotFit and carry numbers and a remedy.
func New(r Request) (Plan, error) {
	asked, err := r.check()
	if err != nil {
		return Plan{}, err
	}
	usable := r.usable()
	switch {
	case r.Device == DeviceCPU:
		return planCPU(r, asked)
	case len(usable) > 0:
		return planCUDA(r, asked, usable)
	case r.Device == DeviceCUDA:
		return Plan{}, fmt.Errorf("%w: no usable GPU: %s", ErrDoesNotFit, r.noGPU())
	case r.Model.Shape.Parameters > smallModel:
		return Plan{}, fmt.Errorf("%w: %s needs a GPU (%s). Try: --model nano, or --device cpu if it may take very long",
			ErrDoesNotFit, r.Model.Name, r.noGPU())
	}
	return planCPU(r, asked)
}

func (r *Request) noGPU() string {
	if r.NoGPU != "" {
		return r.NoGPU
	}
	return "none found"
}

// Environment is what node index's process needs beside the parent's environment to see its own GPU, and only that one, as
// cuda:0. It is nil on a CPU and for a card that isn't there.
func (p Plan) Environment(index int) []string {
	if index >= len(p.Placement) || p.Placement[index].GPU == nil {
		return nil
	}
	for _, g := range p.GPUs {
		if g.Index == *p.Placement[index].GPU && g.UUID != "" {
			return []string{"CUDA_VISIBLE_DEVICES=" + g.UUID}
		}
	}
	return nil
}

// TorchDevice is the device's name inside a node's process, given Environment.
func (p Plan) TorchDevice() string {
	if p.Device == DeviceCUDA {
		return "cuda:0"
	}
	return "cpu"
}
