package gpuwatch

import (
	"slices"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Document is the output of `swarm gpu -o json` (docs/CLI.md). New versions only add fields. -1 means that the
// driver does not report the value.
type Document struct {
	Time   float64 `json:"time"` // Unix seconds
	Driver string  `json:"driver"`
	// why there is no GPU, or why a GPU is left out, with the remedy; or empty
	Reason            string     `json:"reason"`
	Host              Host       `json:"host"`
	Devices           []Device   `json:"devices"`
	Nodes             []Node     `json:"nodes"`
	UnattributedBytes int64      `json:"unattributed_bytes"` // sum over devices
	Warnings          []gpu.Note `json:"warnings"`
	Recommendations   []gpu.Note `json:"recommendations"`
}

// Host describes the host's cores and memory.
type Host struct {
	Cores                int   `json:"cores"`
	MemoryTotalBytes     int64 `json:"memory_total_bytes"`
	MemoryAvailableBytes int64 `json:"memory_available_bytes"`
}

// Device is a GPU and its use.
type Device struct {
	event.Device
	MemoryFreeBytes int64 `json:"memory_free_bytes"`
	// part of the used memory that the nodes below hold, including their contexts where known
	NodesBytes             int64          `json:"nodes_bytes"`
	Slowdowns              []string       `json:"slowdowns"` // why its clocks are reduced at the moment
	TemperatureSlowdown    float64        `json:"temperature_slowdown_celsius"`
	Processes              []Process      `json:"processes"` // null: not reported
	MIG                    bool           `json:"mig"`
	Instances              []gpu.Instance `json:"mig_instances,omitempty"`
	InstanceOf             *int           `json:"mig_instance_of,omitempty"`
	MemoryRepairPending    bool           `json:"memory_repair_pending"`
	MemoryRepairImpossible bool           `json:"memory_repair_impossible"`
	Lost                   bool           `json:"lost"`
	Problem                string         `json:"problem"` // why it cannot be read, or empty
	RecommendedBatchSize   int            `json:"recommended_batch_size"`
}

// Process is a process on a GPU.
type Process struct {
	PID       int    `json:"pid"` // as the driver numbers it: in a container, the host's pid
	UsedBytes int64  `json:"used_bytes"`
	Node      string `json:"node,omitempty"`
}

// Node is a node of a running run.
type Node struct {
	Experiment      string `json:"experiment"`
	Run             string `json:"run"`
	ID              string `json:"id"`
	GPU             *int   `json:"gpu"` // null: on the CPU
	State           string `json:"state"`
	MemoryBytes     int64  `json:"memory_bytes"`
	PeakMemoryBytes int64  `json:"peak_memory_bytes"`
	ResidentBytes   int64  `json:"resident_bytes"`
	TransientBytes  int64  `json:"transient_bytes"`
	BudgetBytes     int64  `json:"budget_bytes"`
	// memory of its process beyond memory_bytes; 0 if the driver does not report it
	ContextBytes int64 `json:"context_bytes"`
}

func newDocument(w *Watch, sample gpu.Sample, runs []runningRun) Document {
	doc := Document{
		Time: sample.Time, Driver: w.host.Driver, Reason: w.host.Reason, Devices: []Device{}, Nodes: []Node{},
		Host: Host{w.host.Cores, w.host.MemoryTotal, w.host.MemoryAvailable},
	}
	claims := map[string][]gpu.Claim{} // by UUID
	for _, run := range runs {
		for _, n := range run.Nodes {
			at := placed(run.plan, n)
			node := Node{
				Experiment: run.Experiment, Run: run.Run, ID: n.ID, State: n.State, MemoryBytes: n.MemoryBytes, PeakMemoryBytes: n.PeakMemoryBytes,
				ResidentBytes: n.ResidentBytes, TransientBytes: n.TransientBytes, BudgetBytes: n.BudgetBytes,
			}
			if len(at) > 0 {
				node.GPU = indexNow(sample, at[0])
			}
			doc.Nodes = append(doc.Nodes, node)
			for _, g := range at {
				if n.PID != 0 {
					claims[g.UUID] = append(claims[g.UUID], claim(run.Run, n))
				}
			}
		}
	}
	situation := gpu.Situation{Host: w.host, Running: len(doc.Nodes), XIDs: w.xids}
	for _, d := range sample.Devices {
		a := gpu.Attribute(d.MemoryUsed, d.Processes, claims[d.UUID])
		doc.Devices = append(doc.Devices, newDevice(d, a))
		doc.UnattributedBytes += max(0, a.Unattributed)
		for _, p := range a.Portions {
			i := slices.IndexFunc(doc.Nodes, func(n Node) bool { return n.Run+"/"+n.ID == p.Node })
			doc.Nodes[i].ContextBytes += p.Context
		}
		situation.Devices = append(situation.Devices, gpu.DeviceUse{
			Device: d, Claims: claims[d.UUID], History: w.history(d.UUID), Busy: w.busy[d.UUID].value(),
			Batch: workload.RecommendedBatch(d.MemoryTotal),
		})
	}
	doc.Warnings, doc.Recommendations = gpu.Advise(situation)
	return doc
}

// claim returns the memory that a node holds of its GPU, or of each of its GPUs.
func claim(run string, n stats.NodeStatus) gpu.Claim {
	return gpu.Claim{Node: run + "/" + n.ID, PID: n.EnginePID, Held: n.DeviceBytes, Peak: n.DevicePeakBytes}
}

// placed returns the GPUs that a plan assigns to a node, or none for a node on the CPU, including one that fell
// back to it.
func placed(plan fit.Plan, n stats.NodeStatus) (gpus []fit.GPU) {
	for _, p := range plan.Placement {
		if p.Node != n.ID || n.Device == fit.DeviceCPU {
			continue
		}
		for _, g := range plan.GPUs {
			if slices.Contains(p.Cards(), g.Index) {
				gpus = append(gpus, g)
			}
		}
	}
	return gpus
}

// indexNow returns the current index of a planned GPU.
func indexNow(sample gpu.Sample, planned fit.GPU) *int {
	for _, d := range sample.Devices {
		if d.UUID == planned.UUID {
			return &d.Index
		}
	}
	return &planned.Index
}

func newDevice(d gpu.Device, a gpu.Attribution) Device {
	out := Device{
		Device: *d.Event(a.Unattributed), MemoryFreeBytes: d.MemoryFree, NodesBytes: a.Nodes, Slowdowns: d.Slowdowns,
		TemperatureSlowdown: d.TemperatureSlowdown, MIG: d.MIG, Instances: d.Instances, InstanceOf: d.InstanceOf,
		MemoryRepairPending: d.MemoryRepairPending, MemoryRepairImpossible: d.MemoryRepairImpossible, Lost: d.Lost, Problem: d.Problem,
		RecommendedBatchSize: workload.RecommendedBatch(d.MemoryTotal),
	}
	if out.Slowdowns == nil {
		out.Slowdowns = []string{}
	}
	if d.Processes != nil {
		out.Processes = []Process{}
	}
	for _, p := range d.Processes {
		out.Processes = append(out.Processes, Process{p.PID, p.Used, a.Owners[p.PID]})
	}
	return out
}
