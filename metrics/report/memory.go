package report

import (
	"maps"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// memory stacks the memory of nodes over time: GPU memory if any node used a GPU, else host memory. It overlays the
// size of the GPUs and the use that their drivers report.
func (run *Run) memory() chart {
	onDevice := run.onDevice()
	o := chartOptions{Title: run.Label + ": host memory by node (" + run.HostKind() + ")", XUnit: "time", Unit: "bytes", Height: 240, Stacked: true, YMin: new(float64)}
	if onDevice {
		o.Title = run.Label + ": GPU memory by node and total"
	}
	at := map[float64]int{}
	for _, s := range run.Memory {
		at[s.Time] = 0
	}
	o.X = slices.AppendSeq(o.X, maps.Keys(at))
	slices.Sort(o.X)
	for i, x := range o.X {
		at[x] = i
	}
	byNode := map[string]plotted{}
	for _, s := range run.Memory {
		if byNode[s.Node] == nil {
			byNode[s.Node] = unknowns(len(o.X))
		}
		bytes := s.RSSBytes
		if run.Status.HostKind == store.HostPSS {
			bytes = s.Host()
		}
		if onDevice {
			bytes = s.DeviceBytes
		}
		byNode[s.Node][at[s.Time]] = float64(bytes)
	}
	for i, n := range run.Status.Nodes {
		if values := byNode[n.ID]; values != nil {
			values.ends()
			o.Series = append(o.Series, series{Label: n.ID, Values: values, Color: i, Width: 1})
		}
	}
	if onDevice {
		o.Series = append(o.Series, run.card(o.X, at)...)
	}
	o.Markers = run.troubles()
	return chart{Kind: "lines", Options: o}
}

// HostKind names the kind of host memory figure that is known for every node.
func (run *Run) HostKind() string { return strings.ToUpper(run.Status.HostKind) }

// ends replaces unknown values before the first and after the last known value by 0, because the node had no process
// then.
func (p plotted) ends() {
	for i := 0; i < len(p) && !units.Finite(p[i]); i++ {
		p[i] = 0
	}
	for i := len(p) - 1; i >= 0 && !units.Finite(p[i]); i-- {
		p[i] = 0
	}
}

func (run *Run) onDevice() bool {
	return slices.ContainsFunc(run.Status.Nodes, func(n nodeStatus) bool { return n.DevicePeakBytes > 0 })
}

// card returns the size of the GPUs and the use that their drivers report, over the slots of x.
func (run *Run) card(x plotted, at map[float64]int) []series {
	used, total := unknowns(len(x)), unknowns(len(x))
	type key struct {
		slot int
		uuid string
	}
	highest, sizes := map[key]int64{}, map[string]int64{}
	for _, d := range run.Devices {
		slot, ok := at[float64(int64(d.Time)/int64(run.Slot)*int64(run.Slot))]
		if ok {
			k := key{slot, d.UUID}
			highest[k] = max(highest[k], d.MemoryUsedBytes)
		}
		sizes[d.UUID] = d.MemoryTotalBytes
	}
	if len(sizes) == 0 {
		return nil
	}
	for k, bytes := range highest {
		if !units.Finite(used[k.slot]) {
			used[k.slot] = 0
		}
		used[k.slot] += float64(bytes)
	}
	all := int64(0)
	for _, bytes := range sizes {
		all += bytes
	}
	for i := range total {
		total[i] = float64(all)
	}
	return []series{
		{Label: "used, as the driver reports", Values: used, Color: "--text", Dash: 2, Width: 1.5, Overlay: true},
		{Label: "GPU total", Values: total, Color: "--bad", Dash: 1, Width: 1.5, Overlay: true},
	}
}

// cardBytes returns the total size of the run's GPUs, or 0 without any.
func (run *Run) cardBytes() int64 {
	sizes := map[string]int64{}
	for _, d := range run.Devices {
		sizes[d.UUID] = d.MemoryTotalBytes
	}
	all := int64(0)
	for _, bytes := range sizes {
		all += bytes
	}
	return all
}

// troubles returns markers for memory shortages and restarts of nodes.
func (run *Run) troubles() []marker {
	const most = 40
	var out []marker
	for _, e := range run.Events {
		switch e.Event.Type {
		case event.TypeMemoryStep:
			out = append(out, marker{e.Event.Time, "out of memory", "bad"})
		case event.TypeRestart:
			out = append(out, marker{e.Event.Time, "restart", "warn"})
		}
	}
	return out[:min(len(out), most)]
}
