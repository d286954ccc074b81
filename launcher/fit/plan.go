package fit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// Plan is the answer; as JSON it is what `swarm plan -o json` prints.
type Plan struct {
	Device    string      `json:"device"` // cpu, cuda
	GPUs      []GPU       `json:"gpus"`   // considered, the one with most free memory first
	Nodes     int         `json:"nodes"`
	Rule      string      `json:"rule"` // what decided the count: measured footprint, guide table, guide memory, estimate, memory, asked for
	Share     string      `json:"share"`
	ShareWhy  string      `json:"share_why,omitempty"` // for a person: where auto met NVIDIA MPS, what was decided and why
	PerNode   Footprint   `json:"per_node"`
	Limit     string      `json:"limit"` // what would change the answer
	Placement []Placement `json:"placement"`
	Why       string      `json:"why"` // for a person

	Slots         int  `json:"slots"`          // nodes that may compute at once, over all rooms
	KeepMemory    bool `json:"keep_memory"`    // nodes keep cached memory and CUDA graphs between their phases; else they give it back
	Threads       int  `json:"threads"`        // of one engine
	MicroBatch    int  `json:"micro_batch"`    // sequences a forward pass must not exceed; 0: the whole batch fits
	GenerateBatch int  `json:"generate_batch"` // completions that may be decoded together; 0: all of a round

	Source    string              `json:"source"`                // of PerNode and Breakdown: measured, estimate
	Rooms     []Room              `json:"rooms"`                 // what the nodes share: one a GPU that is used, or one for the host on a CPU
	Breakdown []Component         `json:"breakdown"`             // of one node's memory
	Expected  int64               `json:"expected_bytes"`        // of all nodes in the fullest room, with its slots at their peaks
	Capacity  int64               `json:"capacity_bytes"`        // of that room, in all
	HostBytes int64               `json:"host_bytes"`            // that one node takes of the host, where Device is cuda
	Shared    int64               `json:"host_shared_bytes"`     // that all nodes of the host take of it together, once, beyond that
	Guide     configs.GuideMemory `json:"guide_memory,omitzero"` // guide 4's breakdown of a node, where it has one
	Changes   []string            `json:"changes"`               // for a person: what would change the answer
}

// Room is a GPU, or the host, as its nodes share it. A node on several GPUs is in the room of its first one, and fills
// the others alike.
type Room struct {
	GPU          *int  `json:"gpu"`           // GPU.Index; null on a CPU
	Nodes        int   `json:"nodes"`         // placed here
	LeaseBytes   int64 `json:"lease_bytes"`   // for the phases of those that compute at one time; 0: no limit
	Slots        int   `json:"slots"`         // that may compute at one time; 0: no limit
	OthersBytes  int64 `json:"others_bytes"`  // in use by somebody else when this was planned
	ReserveBytes int64 `json:"reserve_bytes"` // left alone: fragmentation, and what drivers take
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
	Shared    int64 `json:"shared_bytes"`    // on a CPU: Python with torch, which all nodes hold together, once; no part of Resident
	Resident  int64 `json:"resident_bytes"`  // between phases: context, weights, Adam
	Transient int64 `json:"transient_bytes"` // gradients, activations, KV cache and logits of the running phase: the larger of the next two
	Generate  int64 `json:"generate_bytes"`
	Update    int64 `json:"update_bytes"`
	Budget    int64 `json:"budget_bytes"`  // what a node may take at most
	Context   int64 `json:"context_bytes"` // the part of Resident that no allocator of torch's sees: CUDA context, or interpreter
}

// Placement puts one node on a GPU.
type Placement struct {
	Node string `json:"node"`           // node_0 ...
	GPU  *int   `json:"gpu"`            // GPU.Index; null on a CPU
	GPUs []int  `json:"gpus,omitempty"` // all of them, where a node has several; GPU is the first
}

// Cards are the GPUs of a node, the first one first; none on a CPU.
func (at Placement) Cards() []int {
	if len(at.GPUs) == 0 && at.GPU != nil {
		return []int{*at.GPU}
	}
	return at.GPUs
}

// NodeName is the id of the node with an index from 0.
func NodeName(index int) string { return fmt.Sprintf("node_%d", index) }

// New plans a request. Errors wrap ErrRequest or ErrDoesNotFit and carry numbers and a remedy.
func New(r Request) (Plan, error) {
	asked, err := r.check()
	if err != nil {
		return Plan{}, err
	}
	p, err := r.plan(asked)
	if err == nil && r.Settings.GenerateOnly {
		p.Why += " The nodes only generate: they take no gradients and no optimizer's state."
	}
	if err == nil && len(r.Companions) > 0 {
		p.Why += " Nodes have different models: each is planned for as if it took the most of any of them."
	}
	if err == nil && !r.alternative {
		p.Changes = r.changes(p)
	}
	return p, err
}

func (r *Request) plan(asked int) (Plan, error) {
	if r.Device == DeviceCPU {
		return r.planCPU(asked)
	}
	usable, reason := r.usable()
	onCPU := r.GPUMemory == 0 && r.Share != ShareMPS && (r.CPUFallback || r.Device != DeviceCUDA && r.Model.Shape.Parameters <= smallModel)
	switch {
	case len(usable) > 0:
		p, err := r.planCUDA(asked, usable)
		if errors.Is(err, ErrDoesNotFit) && onCPU && r.CPUFallback {
			reason, _, _ = strings.Cut(strings.TrimPrefix(err.Error(), ErrDoesNotFit.Error()+": "), ". Try:")
			return r.fallBack(asked, reason, err)
		}
		return p, err
	case onCPU:
		if r.CPUFallback {
			return r.fallBack(asked, reason, nil)
		}
		return r.planCPU(asked)
	case reason != r.NoGPU:
		return Plan{}, fmt.Errorf("%w: no usable GPU: %s", ErrDoesNotFit, reason)
	}
	return Plan{}, r.needsGPU(reason)
}

// needsGPU is the error where there is no GPU and what was asked for needs one. Each remedy is one after which no other
// is needed.
func (r *Request) needsGPU(reason string) error {
	reason, try, _ := strings.Cut(reason, ". Try: ")
	var remedies []string
	if try != "" {
		remedies = strings.Split(try, ", or ")
	}
	large := r.Model.Shape.Parameters > smallModel && !r.CPUFallback
	share := "" // what has to go before the CPU can do
	if r.Share == ShareMPS {
		share = " --share " + ShareAuto
	}
	what := r.name()
	switch {
	case r.Device == DeviceCUDA:
		what, remedies = "", append(remedies, "--device cpu"+share)
	case large:
		remedies = append(remedies, "--model nano"+share, "--device cpu"+share+" if it may take very long")
	case r.Share == ShareMPS:
		what, remedies = "share mps", append(remedies, strings.TrimSpace(share))
	}
	if what == "" {
		what = "no usable GPU: " + reason
	} else {
		what += " needs a GPU (" + reason + ")"
	}
	switch last := len(remedies) - 1; {
	case last > 0:
		what += ". Try: " + strings.Join(remedies[:last], ", ") + ", or " + remedies[last]
	case last == 0:
		what += ". Try: " + remedies[0]
	}
	return fmt.Errorf("%w: %s", ErrDoesNotFit, what)
}

// fallBack plans for the CPU where no GPU holds the nodes. When that doesn't fit either, the GPU's error tells more.
func (r *Request) fallBack(asked int, reason string, gpuError error) (Plan, error) {
	p, err := r.planCPU(asked)
	if err != nil && gpuError != nil {
		return p, gpuError
	}
	if reason != "" {
		reason, _, _ = strings.Cut(reason, ". Try:")
		p.Why += " On the CPU, as cpu_fallback allows: " + reason + "."
	}
	return p, err
}

// Governed is the plan after MPS, which auto chose, has passed its proof.
func (p Plan) Governed() Plan {
	p.ShareWhy = "NVIDIA MPS passed its proof: kernels of several nodes run at once, and the driver keeps each node's memory limit"
	return p
}

// Ungoverned is the plan after MPS, which auto chose, has failed its proof: what fits with it fits without it.
func (p Plan) Ungoverned(reason string) Plan {
	p.Share, p.ShareWhy = ShareStatic, "NVIDIA MPS is not used: "+reason
	return p
}

// Environment is what node index's process needs beside the parent's environment to see its own GPUs, and only those,
// as cuda:0 and up. It is nil on a CPU and for a card that isn't there.
func (p Plan) Environment(index int) []string {
	if index >= len(p.Placement) || p.Placement[index].GPU == nil {
		return nil
	}
	cards := p.Placement[index].Cards()
	var uuids []string
	for _, gpu := range cards {
		for _, g := range p.GPUs {
			if g.Index == gpu && g.UUID != "" {
				uuids = append(uuids, g.UUID)
			}
		}
	}
	if len(uuids) < len(cards) {
		return nil
	}
	return []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(uuids, ",")}
}

// TorchDevice is the device's name inside a node's process, given Environment.
func (p Plan) TorchDevice() string {
	if p.Device == DeviceCUDA {
		return "cuda:0"
	}
	return "cpu"
}

// Kept is the memory of a generation that a node keeps while it updates, in bytes by the estimate; 0 without
// KeepMemory.
func (p Plan) Kept() int64 {
	var kept int64
	for _, c := range p.Breakdown {
		if c.Name == nameKept {
			kept += c.Bytes
		}
	}
	return kept
}

// Ranks is how many data-parallel processes one node's engine has.
func (p Plan) Ranks() int {
	if len(p.Placement) == 0 {
		return 1
	}
	return max(1, len(p.Placement[0].GPUs))
}

// room is the one that node index is in, nil where there is none.
func (p Plan) room(index int) *Room {
	if index >= len(p.Placement) {
		return nil
	}
	at := p.Placement[index].GPU
	for i := range p.Rooms {
		gpu := p.Rooms[i].GPU
		if at == nil && gpu == nil || at != nil && gpu != nil && *at == *gpu {
			return &p.Rooms[i]
		}
	}
	return nil
}

// Others is what the plan leaves of node index's GPU to the other nodes and to what ran there before, in bytes: for
// protocol.Start.
func (p Plan) Others(index int) int64 {
	room := p.room(index)
	if room == nil || room.GPU == nil {
		return 0
	}
	phases := p.PerNode.Budget - p.PerNode.Resident
	others := room.OthersBytes + int64(room.Nodes-1)*p.PerNode.Resident
	if p.Share == ShareLease {
		return others + max(0, room.LeaseBytes-phases)
	}
	return others + int64(room.Nodes-1)*phases
}
