package terminal

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// maxText is how many bytes of one foreign text are shown.
const maxText = 2048

// clean makes one printable line of text that a model, a node or a trainer wrote: no escape sequences, no control characters, nothing that
// turns the direction of what follows, at most maxText bytes.
func clean(text string) string {
	if len(text) <= maxText && charset.Printable(text) {
		return text
	}
	if len(text) > 4*maxText {
		text = text[:4*maxText] // the rest is cut below anyway
	}
	text = inert(text)
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// inert is clean without its bound.
func inert(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r' || unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.IsControl(r):
			return utf8.RuneError
		case unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs):
			return -1 // without width, or with one that only the terminal's font knows
		}
		return r
	}, ansi.Strip(text))
}

// Line returns foreign text as one line that a terminal obeys in nothing, at most 2 KB of it.
func Line(text string) string { return clean(text) }

// Lines returns all of a foreign text line by line. A terminal obeys none of them.
func Lines(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = inert(strings.TrimSuffix(line, "\r"))
	}
	return lines
}

// cleanStatus returns x with every text in it clean. What x refers to is left as it is.
func cleanStatus(x stats.Status) stats.Status {
	for _, text := range []*string{&x.Experiment, &x.Run, &x.State, &x.Message, &x.Model, &x.Device, &x.PriceCurrency} {
		*text = clean(*text)
	}
	x.Nodes = slices.Clone(x.Nodes)
	for i := range x.Nodes {
		n := &x.Nodes[i]
		for _, text := range []*string{&n.ID, &n.State, &n.Device, &n.Cause, &n.Message, &n.Worker, &n.Model} {
			*text = clean(*text)
		}
	}
	return x
}

// cleanGPUs returns x with every text in it clean. What x refers to is left as it is.
func cleanGPUs(x GPUStatus) GPUStatus {
	x.Driver = clean(x.Driver)
	reasons := strings.Split(x.Reason, "\n")
	for i, reason := range reasons {
		reasons[i] = clean(reason)
	}
	x.Reason = strings.Join(reasons, "\n")
	x.Devices, x.Nodes = slices.Clone(x.Devices), slices.Clone(x.Nodes)
	for i := range x.Devices {
		d := &x.Devices[i]
		d.Label, d.Name, d.Problem = clean(d.Label), clean(d.Name), clean(d.Problem)
	}
	for i := range x.Nodes {
		n := &x.Nodes[i]
		n.Run, n.Node, n.State, n.Device = clean(n.Run), clean(n.Node), clean(n.State), clean(n.Device)
	}
	for _, notes := range []*[]string{&x.Warnings, &x.Recommendations} {
		*notes = slices.Clone(*notes)
		for i, note := range *notes {
			(*notes)[i] = clean(note)
		}
	}
	return x
}
