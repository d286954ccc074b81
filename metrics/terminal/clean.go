package terminal

import (
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// cleanStatus returns a copy of x with all texts made safe for a terminal.
func cleanStatus(x stats.Status) stats.Status {
	for _, text := range []*string{&x.Experiment, &x.Run, &x.State, &x.Message, &x.Model, &x.Device, &x.PriceCurrency} {
		*text = charset.Line(*text)
	}
	x.Nodes = slices.Clone(x.Nodes)
	for i := range x.Nodes {
		n := &x.Nodes[i]
		for _, text := range []*string{&n.ID, &n.State, &n.Device, &n.Cause, &n.Message, &n.Worker, &n.Model} {
			*text = charset.Line(*text)
		}
	}
	return x
}

// cleanGPUs returns a copy of x with all texts made safe for a terminal.
func cleanGPUs(x GPUStatus) GPUStatus {
	x.Driver = charset.Line(x.Driver)
	reasons := strings.Split(x.Reason, "\n")
	for i, reason := range reasons {
		reasons[i] = charset.Line(reason)
	}
	x.Reason = strings.Join(reasons, "\n")
	x.Devices, x.Nodes = slices.Clone(x.Devices), slices.Clone(x.Nodes)
	for i := range x.Devices {
		d := &x.Devices[i]
		d.Label, d.Name, d.Problem = charset.Line(d.Label), charset.Line(d.Name), charset.Line(d.Problem)
	}
	for i := range x.Nodes {
		n := &x.Nodes[i]
		n.Run, n.Node, n.State, n.Device = charset.Line(n.Run), charset.Line(n.Node), charset.Line(n.State), charset.Line(n.Device)
	}
	for _, notes := range []*[]string{&x.Warnings, &x.Recommendations} {
		*notes = slices.Clone(*notes)
		for i, note := range *notes {
			(*notes)[i] = charset.Line(note)
		}
	}
	return x
}
