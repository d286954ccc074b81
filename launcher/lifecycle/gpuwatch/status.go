package gpuwatch

import (
	"fmt"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// Status formats a document of this watch for people.
func (w *Watch) Status(doc Document) terminal.GPUStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := terminal.GPUStatus{
		Time: doc.Time, Driver: doc.Driver, Reason: doc.Reason, HostTotal: doc.Host.MemoryTotalBytes,
		HostUsed: doc.Host.MemoryTotalBytes - doc.Host.MemoryAvailableBytes, HostTrend: w.history("").Values(),
	}
	for _, d := range doc.Devices {
		problem, _ := fail.SplitRemedy(d.Problem) // the warnings include the remedy
		out.Devices = append(out.Devices, terminal.GPUDevice{
			Label: fmt.Sprintf("GPU %d", d.Index), Name: d.Name, Problem: problem, Total: d.MemoryTotalBytes, Used: d.MemoryUsedBytes,
			Nodes: d.NodesBytes, Unattributed: d.UnattributedBytes, Utilization: d.Utilization, Power: d.PowerWatts, Limit: d.PowerLimitWatts,
			Temperature: d.TemperatureCelsius, Trend: w.history(d.UUID).Values(),
		})
	}
	for _, n := range doc.Nodes {
		at := "host"
		if n.GPU != nil {
			at = fmt.Sprintf("GPU %d", *n.GPU)
		}
		out.Nodes = append(out.Nodes, terminal.GPUNode{
			Run: n.Run, Node: n.ID, State: n.State, Device: at, Held: n.MemoryBytes, Peak: n.PeakMemoryBytes, Resident: n.ResidentBytes,
			Transient: n.TransientBytes, Budget: n.BudgetBytes,
		})
	}
	for _, n := range doc.Warnings {
		out.Warnings = append(out.Warnings, n.String())
	}
	for _, n := range doc.Recommendations {
		out.Recommendations = append(out.Recommendations, n.String())
	}
	return out
}
