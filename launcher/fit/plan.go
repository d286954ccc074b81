package fit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// Plan is the result of New. As JSON it is the output of `swarm plan -o json`.
type Plan struct {
	Device    string      `json:"device"` // cpu, cuda
	GPUs      []GPU       `json:"gpus"`   // considered, sorted by free memory, largest first
	Nodes     int         `json:"nodes"`
	Rule      string      `json:"rule"` // source of the count: measured footprint, guide table, guide memory, estimate, memory, asked for
	Share     string      `json:"share"`
	ShareWhy  string      `json:"share_why,omitempty"` // for the user: what auto decided about NVIDIA MPS, and why
	PerNode   Footprint   `json:"per_node"`
	Limit     string      `json:"limit"` // what limits the number of nodes
	Placement []Placement `json:"placement"`
	Why       string      `json:"why"` // for the user

	Slots         int  `json:"slots"`          // nodes that may compute at once, over all rooms
	KeepMemory    bool `json:"keep_memory"`    // nodes keep cached memory and CUDA graphs between their phases; else they free them
	Threads       int  `json:"threads"`        // per engine
	MicroBatch    int  `json:"micro_batch"`    // most sequences of a forward pass; 0: the whole batch fits
	GenerateBatch int  `json:"generate_batch"` // most completions decoded together; 0: all of a round

	Source    string              `json:"source"`                // of PerNode and Breakdown: measured, estimate
	Rooms     []Room              `json:"rooms"`                 // shared by the nodes: one per used GPU, or one for the host on a CPU
	Breakdown []Component         `json:"breakdown"`             // of one node's memory
	Expected  int64               `json:"expected_bytes"`        // of all nodes in the fullest room, with its slots at their peaks
	Capacity  int64               `json:"capacity_bytes"`        // total of that room
	HostBytes int64               `json:"host_bytes"`            // host memory of one node, if Device is cuda; 0 if PerNode counts it
	Shared    int64               `json:"host_shared_bytes"`     // host memory that all nodes share, in addition
	Guide     configs.GuideMemory `json:"guide_memory,omitzero"` // guide 4's breakdown of a node, if there is one
	Changes   []string            `json:"changes"`               // for the user: options that would change the plan
}

// Room is a GPU, or the host, shared by its nodes. A node on several GPUs belongs to the room of its first GPU and
// uses the others equally.
type Room struct {
	GPU          *int  `json:"gpu"`           // GPU.Index; null on a CPU
	Nodes        int   `json:"nodes"`         // placed here
	LeaseBytes   int64 `json:"lease_bytes"`   // for the phases of all nodes computing at one time; 0: no limit
	Slots        int   `json:"slots"`         // nodes that may compute at one time; 0: no limit
	OthersBytes  int64 `json:"others_bytes"`  // in use by other processes at planning time
	ReserveBytes int64 `json:"reserve_bytes"` // left free: fragmentation, drivers
}

// Component is one item of a node's memory.
type Component struct {
	Name  string `json:"name"`
	Phase string `json:"phase"` // resident, generate, update
	Bytes int64  `json:"bytes"`
	Note  string `json:"note"` // the formula, or the source of the figure
}

// Footprint is one node's memory in bytes: of the GPU, or of the host on a CPU.
type Footprint struct {
	Shared    int64 `json:"shared_bytes"`    // on a CPU: Python with torch, held once by all nodes together; not part of Resident
	Resident  int64 `json:"resident_bytes"`  // between phases: context, weights, Adam
	Transient int64 `json:"transient_bytes"` // gradients, activations, KV cache and logits of the running phase: the larger of the next two
	Generate  int64 `json:"generate_bytes"`
	Update    int64 `json:"update_bytes"`
	Budget    int64 `json:"budget_bytes"`  // most memory that the node may use
	Context   int64 `json:"context_bytes"` // part of Resident outside torch's allocators: CUDA context, or interpreter
}

// Placement puts one node on a GPU.
type Placement struct {
	Node string `json:"node"`           // node_0 ...
	GPU  *int   `json:"gpu"`            // GPU.Index; null on a CPU
	GPUs []int  `json:"gpus,omitempty"` // set if a node has several GPUs; GPU is the first
}

// Cards returns the GPUs of a node, the first one first; none on a CPU.
func (at Placement) Cards() []int {
	if len(at.GPUs) == 0 && at.GPU != nil {
		return []int{*at.GPU}
	}
	return at.GPUs
}

// NodeName returns the id of the node with an index from 0.
func NodeName(index int) string { return fmt.Sprintf("node_%d", index) }

// New plans a request. Errors wrap ErrRequest or ErrDoesNotFit and contain numbers and a remedy.
func New(r Request) (Plan, error) {
	asked, err := r.check()
	if err != nil {
		return Plan{}, err
	}
	p, err := r.plan(asked)
	if err == nil && r.Settings.GenerateOnly {
		p.Why += " The nodes only generate, so they need no gradients and no optimizer state."
	}
	if err == nil && len(r.Companions) > 0 {
		p.Why += " Nodes have different models: the plan gives each node the memory of the largest."
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

// needsGPU returns the error for a request that needs a GPU on a host without one. Each listed remedy is sufficient
// alone.
func (r *Request) needsGPU(reason string) error {
	reason, try, _ := strings.Cut(reason, ". Try: ")
	var remedies []string
	if try != "" {
		remedies = strings.Split(try, ", or ")
	}
	large := r.Model.Shape.Parameters > smallModel && !r.CPUFallback
	share := "" // option that must change before the CPU is possible
	if r.Share == ShareMPS {
		share = " --share " + ShareAuto
	}
	what := r.name()
	switch {
	case r.Device == DeviceCUDA:
		what, remedies = "", append(remedies, "--device cpu"+share)
	case large:
		remedies = append(remedies, "--model nano"+share, "--device cpu"+share+" if a very long run is acceptable")
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

// fallBack plans for the CPU if no GPU holds the nodes. If that doesn't fit either, it returns the GPU's error, which
// is more helpful.
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

// Governed returns the plan after MPS, chosen by auto, has passed its proof.
func (p Plan) Governed() Plan {
	p.ShareWhy = "NVIDIA MPS passed its test: kernels of several nodes run at once, and the driver enforces each node's memory limit"
	return p
}

// Ungoverned returns the plan after MPS, chosen by auto, has failed its proof. Nodes that fit with MPS also fit
// without it.
func (p Plan) Ungoverned(reason string) Plan {
	p.Share, p.ShareWhy = ShareStatic, "NVIDIA MPS is not used: "+reason
	return p
}

// Environment returns the variables that the process of node index needs, in addition to the parent's environment, to
// see only its own GPUs, as cuda:0 and up. It returns nil on a CPU and for a hypothetical card.
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

// TorchDevice returns the device's name inside a node's process that runs with Environment.
func (p Plan) TorchDevice() string {
	if p.Device == DeviceCUDA {
		return "cuda:0"
	}
	return "cpu"
}

// Kept returns the estimated bytes of a generation that a node keeps while it updates; 0 without KeepMemory.
func (p Plan) Kept() int64 {
	var kept int64
	for _, c := range p.Breakdown {
		if c.Name == nameKept {
			kept += c.Bytes
		}
	}
	return kept
}

// Ranks returns the number of data-parallel processes of one node's engine.
func (p Plan) Ranks() int {
	if len(p.Placement) == 0 {
		return 1
	}
	return max(1, len(p.Placement[0].GPUs))
}

// room returns the room of node index, or nil if it has none.
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

// Others returns the bytes of node index's GPU that the plan leaves to other nodes and to earlier processes, for
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
