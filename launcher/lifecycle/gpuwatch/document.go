package gpuwatch

import (
	"slices"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Document is what `swarm gpu -o json` prints (docs/CLI.md). Fields are only ever added. What a driver doesn't tell is
// -1.
type Document struct {
	Time              float64    `json:"time"` // Unix seconds
	Driver            string     `json:"driver"`
	Reason            string     `json:"reason"` // why there is no GPU, or why one is left out, with the remedy; or empty
	Host              Host       `json:"host"`
	Devices           []Device   `json:"devices"`
	Nodes             []Node     `json:"nodes"`
	UnattributedBytes int64      `json:"unattributed_bytes"` // over devices
	Warnings          []gpu.Note `json:"warnings"`
	Recommendations   []gpu.Note `json:"recommendations"`
}

// Host is the host's memory.
type Host struct {
	Cores                int   `json:"cores"`
	MemoryTotalBytes     int64 `json:"memory_total_bytes"`
	MemoryAvailableBytes int64 `json:"memory_available_bytes"`
}

// Device is a GPU with what is in use on it.
type Device struct {
	event.Device
	MemoryFreeBytes        int64          `json:"memory_free_bytes"`
	NodesBytes             int64          `json:"nodes_bytes"` // of what is used: by the nodes below, with their contexts where known
	Slowdowns              []string       `json:"slowdowns"`   // why its clocks are reduced now
	TemperatureSlowdown    float64        `json:"temperature_slowdown_celsius"`
	Processes              []Process      `json:"processes"` // null: not told
	MIG                    bool           `json:"mig"`
	Instances              []gpu.Instance `json:"mig_instances,omitempty"`
	InstanceOf             *int           `json:"mig_instance_of,omitempty"`
	MemoryRepairPending    bool           `json:"memory_repair_pending"`
	MemoryRepairImpossible bool           `json:"memory_repair_impossible"`
	Lost                   bool           `json:"lost"`
	Problem                string         `json:"problem"` // why it can't be read, or empty
	RecommendedBatchSize   int            `json:"recommended_batch_size"`
}

// Process is a process on a GPU.
type Process struct {
	PID       int    `json:"pid"` // as the driver numbers it: in a container the host's
	UsedBytes int64  `json:"used_bytes"`
	Node      string `json:"node,omitempty"`
}

// Node is a node of a running run.
type Node struct {
	Experiment      string `json:"experiment"`
	Run             string `json:"run"`
	ID              string `json:"id"`
	GPU             *int   `json:"gpu"` // null: on the host
	State           string `json:"state"`
	MemoryBytes     int64  `json:"memory_bytes"`
	PeakMemoryBytes int64  `json:"peak_memory_bytes"`
	ResidentBytes   int64  `json:"resident_bytes"`
	TransientBytes  int64  `json:"transient_bytes"`
	BudgetBytes     int64  `json:"budget_bytes"`
	ContextBytes    int64  `json:"context_bytes"` // beyond memory_bytes in its process; 0 where the driver doesn't tell
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

// claim is what a node holds of its GPU, and of each of them where it has several.
func claim(run string, n stats.NodeStatus) gpu.Claim {
	return gpu.Claim{Node: run + "/" + n.ID, PID: n.EnginePID, Held: n.DeviceBytes, Peak: n.DevicePeakBytes}
}

// placed returns the GPUs that a plan gives to a node, none on the host, where it may also have fallen back to.
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

// indexNow is a planned GPU's index as it is numbered now.
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
