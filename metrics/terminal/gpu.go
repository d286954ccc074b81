package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// GPUStatus is the content of a GPU view. Memory is in bytes. Unknown figures are -1, unknown texts empty.
type GPUStatus struct {
	Time    float64 // Unix seconds
	Driver  string
	Reason  string // why GPUs are missing; may be empty
	Devices []GPUDevice
	Nodes   []GPUNode // of running runs

	HostTotal, HostUsed int64
	HostTrend           []float64 // used host memory over the session, oldest first

	Warnings, Recommendations []string // one line each
}

// GPUDevice is one device of a GPUStatus.
type GPUDevice struct {
	Label        string // GPU 0
	Name         string
	Problem      string // why its other figures are unknown; empty if they are known
	Total, Used  int64
	Nodes        int64 // memory held by nodes
	Unattributed int64 // memory held by unknown processes
	Utilization  float64
	Power, Limit float64   // watts
	Temperature  float64   // °C
	Trend        []float64 // used memory over the session, oldest first
}

// GPUNode is one node of a GPUStatus.
type GPUNode struct {
	Run, Node, State string
	Device           string // GPU 0, host
	Held, Peak       int64
	Resident         int64
	Transient        int64
	Budget           int64 // 0: none
}

// PrintGPUs prints a GPUStatus once, without color.
func PrintGPUs(p *table.Page, x GPUStatus) {
	x = cleanGPUs(x)
	nodes := x.Nodes
	x.Nodes = nil
	for _, line := range gpuDevices(newStyles(false), x, drawnWidth(p)) {
		p.Println(strings.TrimRight(ansi.Strip(line), " "))
	}
	p.Println()
	if len(nodes) == 0 {
		p.Println(noNode)
	} else {
		p.Table(tableOf(gpuColumns(nodes), nodes))
	}
	for _, line := range gpuNotes(newStyles(false), x, 0) {
		p.Println(ansi.Strip(line))
	}
}

// noNode replaces the table of nodes if there are none.
const noNode = "no node is running"

// gpuBody returns the lines of devices and nodes. The table of nodes has at most room lines.
func gpuBody(st styles, x GPUStatus, width, room int) []string {
	out := append(gpuDevices(st, x, width), "")
	if len(x.Nodes) == 0 {
		return append(out, st.faint.Render(noNode))
	}
	return append(out, gpuTable(st, x.Nodes, width, room)...)
}

// gpuDevices returns the lines of the devices. Without devices it returns the reason and the host's memory.
func gpuDevices(st styles, x GPUStatus, width int) []string {
	var out []string
	for _, d := range x.Devices {
		out = append(out, gpuDevice(st, d, width)...)
	}
	if len(x.Devices) == 0 {
		out = append(out, strings.Split(st.title.Render("no GPU")+": "+x.Reason, "\n")...)
		out = append(out, gpuMemoryLine(st, "host memory", x.HostUsed, x.HostTotal, x.HostTrend, width))
	} else if x.Reason != "" {
		out = append(out, strings.Split(x.Reason, "\n")...)
	}
	return out
}

func gpuDevice(st styles, d GPUDevice, width int) []string {
	out := []string{st.title.Render(d.Label) + "  " + d.Name}
	if d.Problem != "" {
		return append(out, "  "+st.bad.Render(d.Problem))
	}
	facts := []string{}
	if d.Utilization >= 0 {
		facts = append(facts, fmt.Sprintf("%.0f %% busy", d.Utilization*100))
	}
	if d.Power >= 0 {
		power := fmt.Sprintf("%.0f W", d.Power)
		if d.Limit > 0 {
			power = fmt.Sprintf("%.0f of %.0f W", d.Power, d.Limit)
		}
		facts = append(facts, power)
	}
	if d.Temperature >= 0 {
		facts = append(facts, fmt.Sprintf("%.0f °C", d.Temperature))
	}
	if d.Nodes > 0 {
		facts = append(facts, "nodes "+units.BytesMeasured(d.Nodes))
	}
	if d.Unattributed > 0 {
		facts = append(facts, "unattributed "+units.BytesMeasured(d.Unattributed))
	}
	out = append(out, "  "+gpuMemoryLine(st, "memory", d.Used, d.Total, d.Trend, width-2))
	if len(facts) == 0 {
		return out
	}
	return append(out, "  "+wording.Dotted(facts...))
}

// gpuMemoryLine returns a bar of used memory with its trend.
func gpuMemoryLine(st styles, label string, used, total int64, trend []float64, width int) string {
	if used < 0 || total <= 0 {
		return label + " not told"
	}
	share := float64(used) / float64(total)
	style := st.good
	if share > 70.0/80 { // the threshold of the warning in gpu.Advise
		style = st.bad
	}
	cells := max(8, min(30, width-50))
	text := fmt.Sprintf("%s %s %s of %s %3.0f %%", label, style.Render(bar(share, cells)), units.BytesMeasured(used), units.BytesMeasured(total), share*100)
	if len(trend) < 2 {
		return text
	}
	return text + st.faint.Render(trendIn(trend, text, min(width, ansi.StringWidth(text)+42)))
}

// gpuColumn is a column of the table of nodes in the GPU view.
type gpuColumn = columnOf[GPUNode]

func gpuColumns(nodes []GPUNode) []gpuColumn {
	figure := func(title string, drop int, bytes func(GPUNode) int64) gpuColumn {
		return gpuColumn{title, max(7, len(title)), false, drop, func(n GPUNode) string { return units.BytesMeasured(bytes(n)) }}
	}
	columns := []gpuColumn{
		{"NODE", 9, true, 0, func(n GPUNode) string { return n.Node }},
		{"ON", 7, true, 4, func(n GPUNode) string { return n.Device }},
		{"STATE", 10, true, 3, func(n GPUNode) string { return n.State }},
		figure("RESIDENT", 5, func(n GPUNode) int64 { return n.Resident }),
		figure("TRANSIENT", 5, func(n GPUNode) int64 { return n.Transient }),
		figure("MEMORY", 0, func(n GPUNode) int64 { return n.Held }),
		figure("PEAK", 0, func(n GPUNode) int64 { return n.Peak }),
		figure("BUDGET", 1, func(n GPUNode) int64 { return n.Budget }),
	}
	if slices.ContainsFunc(nodes, func(n GPUNode) bool { return n.Run != nodes[0].Run }) {
		columns = append([]gpuColumn{{"RUN", 22, true, 2, func(n GPUNode) string { return n.Run }}}, columns...)
	}
	return columns
}

func gpuTable(st styles, nodes []GPUNode, width, room int) []string {
	columns := gpuColumns(nodes)
	for {
		total, worst := len(columns)-1, 0
		for _, c := range columns {
			total += c.width
			worst = max(worst, c.drop)
		}
		if total <= width || worst == 0 {
			break
		}
		columns = slices.DeleteFunc(columns, func(c gpuColumn) bool { return c.drop == worst })
	}
	line := func(text func(gpuColumn) string) string {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = cell(text(c), c.width, c.left)
		}
		return strings.TrimRight(strings.Join(cells, " "), " ")
	}
	out := []string{st.faint.Render(line(func(c gpuColumn) string { return c.title }))}
	shown := nodes
	if len(nodes) > room-1 {
		shown = nodes[:max(1, room-2)]
	}
	for _, n := range shown {
		row := line(func(c gpuColumn) string { return c.text(n) })
		if n.Budget > 0 && n.Peak > n.Budget {
			row = st.bad.Render(row)
		}
		out = append(out, row)
	}
	if hidden := len(nodes) - len(shown); hidden > 0 {
		out = append(out, st.faint.Render(fmt.Sprintf("and %d more", hidden)))
	}
	return out
}

// gpuNotes returns the advice, wrapped to width if width is above 0.
func gpuNotes(st styles, x GPUStatus, width int) []string {
	var out []string
	add := func(label string, style func(...string) string, notes []string) {
		for _, note := range notes {
			text := label + note
			if width > 0 {
				text = ansi.Wrap(text, width, " ")
			}
			for line := range strings.Lines(text) {
				out = append(out, style(strings.TrimSuffix(line, "\n")))
			}
		}
	}
	add("warning: ", st.bad.Render, x.Warnings)
	add("better: ", st.faint.Render, x.Recommendations)
	if len(out) > 0 {
		out = append([]string{""}, out...)
	}
	return out
}

// gpuFrame draws at most height lines of at most width cells. If the height is too small, it cuts the table of nodes
// first, then the advice, and the devices last.
func gpuFrame(st styles, x GPUStatus, known bool, trouble, help string, width, height int, location *time.Location) string {
	width = max(1, width)
	at := ""
	if x.Time > 0 {
		at = time.UnixMilli(int64(x.Time * 1000)).In(location).Format(time.TimeOnly)
	}
	driver := ""
	if x.Driver != "" {
		driver = "driver " + x.Driver
	}
	head := []string{st.title.Render("swarm gpu") + st.faint.Render(strings.TrimRight("  "+wording.Dotted(driver, at), " "))}
	foot := []string{""}
	if trouble != "" {
		foot = append(foot, st.bad.Render(trouble))
	}
	foot = append(foot, st.faint.Render(help))
	if !known {
		head = append(head, st.faint.Render("asking the driver …"))
	} else {
		x.Reason = ansi.Wrap(x.Reason, width-len("no GPU: "), " ")
		notes := gpuNotes(st, x, width)
		most := max(0, height-len(head)-len(foot)-3*len(x.Devices)-4)
		notes = notes[:min(len(notes), most)]
		room := height - len(head) - len(foot) - len(notes) - 3*len(x.Devices) - 1
		head = append(append(head, gpuBody(st, x, width, max(2, room))...), notes...)
	}
	out := append(head, foot...)
	if height > 0 && len(out) > height {
		out = append(out[:max(0, height-1)], foot[len(foot)-1])
	}
	for i, line := range out {
		out[i] = ansi.Truncate(line, width, "…")
	}
	return strings.Join(out, "\n")
}
