package gpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Note is one line of advice.
type Note struct {
	GPU  *int   `json:"gpu"`  // index; null: about the host
	Code string `json:"code"` // for scripts; docs/CLI.md lists them
	Text string `json:"text"`
	Try  string `json:"try"` // remedy; may be empty
}

// String returns the note as one line of text.
func (n Note) String() string {
	text := n.Text
	if n.GPU != nil {
		text = fmt.Sprintf("GPU %d: %s", *n.GPU, text)
	}
	if n.Try != "" {
		text += ". Try: " + n.Try
	}
	return text
}

// Situation is the input of Advise.
type Situation struct {
	Host    Host
	Running int // nodes of all running runs
	Devices []DeviceUse
	XIDs    []XID // of the whole session
}

// DeviceUse is a device with its load.
type DeviceUse struct {
	Device
	Claims  []Claim
	History *History // of the session, may be nil
	Busy    float64  // mean utilization of the session; -1: unknown
	Batch   int      // guide 0's batch size for a single node on the device
}

// Bounds of the advice. Guide 4 warns above 70 GB of 80 and found 50 to 60 GB stable.
const (
	likelyToRunOut = 70.0 / 80

	trendSpan   = 600       // seconds of history that a trend requires
	trendRise   = 0.02      // minimum rise over the history, as a part of the card's memory
	trendAhead  = 24 * 3600 // seconds: a later overflow is ignored
	idleBelow   = 0.5       // utilization
	hotMargin   = 5         // °C below the slowdown
	hotAlways   = 85        // °C, if the driver reports no slowdown temperature
	hostLow     = 0.1       // minimum available part of host memory
	strangerMin = 1e9       // bytes
)

// Advise returns warnings about present and coming problems, and recommendations.
func Advise(s Situation) (warnings, recommendations []Note) {
	warnings, recommendations = []Note{}, []Note{}
	for _, d := range s.Devices {
		w, r := adviseDevice(d)
		warnings, recommendations = append(warnings, w...), append(recommendations, r...)
	}
	warnings = append(warnings, adviseXIDs(s.XIDs)...)
	if total := s.Host.MemoryTotal; total > 0 && float64(s.Host.MemoryAvailable) < hostLow*float64(total) {
		warnings = append(warnings, Note{nil, "host_memory",
			fmt.Sprintf("the host has %s of %s memory available", units.Bytes(s.Host.MemoryAvailable), units.Bytes(total)),
			"fewer nodes; the kernel kills processes when host memory runs out"})
	}
	if len(s.Devices) == 0 && s.Running > 0 {
		recommendations = append(recommendations, Note{nil, "cpu",
			fmt.Sprintf("%s on the CPU: guide 4 (docs/GUIDES.md) found GPT-2 200 times slower there", units.Plural(s.Running, "node")), "a machine with a GPU"})
	}
	return warnings, recommendations
}

func adviseDevice(d DeviceUse) (warnings, recommendations []Note) {
	note := func(code, try, format string, args ...any) Note {
		return Note{&d.Index, code, fmt.Sprintf(format, args...), try}
	}
	switch {
	case d.Lost:
		text, try, _ := strings.Cut(d.Problem, ". Try: ")
		return []Note{note("lost", try, "lost: %s", text)}, nil
	case d.Problem != "":
		text, try, _ := strings.Cut(d.Problem, ". Try: ")
		return []Note{note("unreadable", try, "%s", text)}, nil
	case d.MIG:
		return []Note{migNote(d.GPU)}, nil
	}
	add := func(list *[]Note, n Note, holds bool) {
		if holds {
			*list = append(*list, n)
		}
	}
	full := float64(d.MemoryUsed) > likelyToRunOut*float64(d.MemoryTotal)
	add(&warnings, note("memory_high", fewer(d), "%s of %s in use, more than 7/8: likely to run out of memory", units.Bytes(d.MemoryUsed),
		units.Bytes(d.MemoryTotal)), full)
	if n, rising := trend(d); rising {
		warnings = append(warnings, n)
	}
	strangers := Strangers(d.MemoryUsed, d.Claims)
	add(&warnings, note("others", "nvidia-smi to see which processes; nodes cannot use that memory", "at least %s are in use outside the nodes",
		units.Bytes(strangers)), float64(strangers) > max(strangerMin, 0.02*float64(d.MemoryTotal)))
	warnings = append(warnings, adviseBoard(d)...)

	add(&recommendations, note("batch_size", "", "guide 0 (docs/GUIDES.md) recommends batch size %d for a single node on this GPU: (total - 2 GB) / (1.5 GB x 2.5)",
		d.Batch), len(d.Claims) == 0)
	add(&recommendations, note("save_memory", "gradient_checkpointing: true, or gradient_accumulation_steps: 4; the update stays the same",
		"nodes can run with less memory"), full && len(d.Claims) > 0)
	add(&recommendations, note("idle", "more nodes (--nodes max), or a larger micro_batch", "%.0f %% busy with %s, and %s free", d.Busy*100,
		units.Plural(len(d.Claims), "node"), units.Bytes(d.MemoryFree)), len(d.Claims) > 0 && d.Busy >= 0 && d.Busy < idleBelow && !full)
	add(&recommendations, note("power_cap", "", "the power limit of %.0f W lowers its clocks, as usual under full load",
		d.PowerLimitWatts), slices.Contains(d.Slowdowns, SlowdownPowerCap) && d.PowerLimitWatts > 0)
	return warnings, recommendations
}

// adviseBoard returns the warnings about heat, power and defects.
func adviseBoard(d DeviceUse) (warnings []Note) {
	add := func(code, try, format string, args ...any) {
		warnings = append(warnings, Note{&d.Index, code, fmt.Sprintf(format, args...), try})
	}
	hot := d.TemperatureSlowdown - hotMargin
	if d.TemperatureSlowdown <= 0 {
		hot = hotAlways
	}
	switch {
	case slices.Contains(d.Slowdowns, SlowdownHeat):
		add("heat", "better cooling, or a lower power limit (sudo nvidia-smi -pl WATTS)", "slowed down because of heat%s", degrees(d.TemperatureCelsius))
	case d.TemperatureCelsius >= hot:
		add("heat", "better cooling", "close to slowing down because of heat%s", degrees(d.TemperatureCelsius))
	}
	switch {
	case slices.Contains(d.Slowdowns, SlowdownPowerBrake):
		add("power_brake", "have the machine's power supply checked", "slowed down by the machine's power supply")
	case slices.Contains(d.Slowdowns, SlowdownHardware) && !slices.Contains(d.Slowdowns, SlowdownHeat):
		add("slowdown", "nvidia-smi -q -d PERFORMANCE", "the hardware has halved its clocks")
	}
	switch {
	case d.MemoryRepairImpossible:
		add("memory_repair", "have the card replaced", "defective memory can no longer be remapped")
	case d.MemoryRepairPending:
		add("memory_repair", fmt.Sprintf("sudo nvidia-smi --gpu-reset -i %d when nothing runs on it", d.Index),
			"defective memory will be remapped at the next reset")
	}
	return warnings
}

func degrees(celsius float64) string {
	if celsius < 0 {
		return ""
	}
	return fmt.Sprintf(" (%.0f °C)", celsius)
}

// fewer returns the remedy for a full card.
func fewer(d DeviceUse) string {
	others := "--share lease, or optimizer_offload: true"
	if n := len(d.Claims); n > 1 && d.MemoryUsed > 0 {
		fit := max(1, int(float64(n)*likelyToRunOut*float64(d.MemoryTotal)/float64(d.MemoryUsed)))
		return fmt.Sprintf("fewer nodes (--nodes %d), %s", min(fit, n-1), others)
	}
	return others
}

// trend warns if growing memory use will fill the card.
func trend(d DeviceUse) (Note, bool) {
	if d.History == nil || d.History.Span() < trendSpan || d.MemoryTotal <= 0 {
		return Note{}, false
	}
	slope := d.History.Slope()
	full := float64(d.MemoryTotal-d.MemoryUsed) / slope
	if slope*d.History.Span() < trendRise*float64(d.MemoryTotal) || full > trendAhead {
		return Note{}, false
	}
	return Note{&d.Index, "memory_rising", fmt.Sprintf("memory in use rises by %s per hour: full in %s", units.Bytes(int64(slope*3600)), hours(full)),
		"clear_cache_every_n_rounds: 10; a restart also frees a node's cache"}, true
}

func migNote(g GPU) Note {
	n := Note{GPU: &g.Index, Code: "mig", Text: "split by MIG, but swarm uses whole GPUs", Try: fmt.Sprintf("sudo nvidia-smi -i %d -mig 0", g.Index)}
	if len(g.Instances) > 0 {
		var names []string
		for _, i := range g.Instances {
			names = append(names, fmt.Sprintf("%s (%s, %s free)", i.Name, i.UUID, units.Bytes(i.MemoryFree)))
		}
		n.Text = fmt.Sprintf("split by MIG, but swarm uses an instance only if you name it: %s", strings.Join(names, ", "))
		n.Try = fmt.Sprintf("%s=%s, or sudo nvidia-smi -i %d -mig 0", VisibleVariable, g.Instances[0].UUID, g.Index)
	}
	return n
}

// adviseXIDs reports each error of each device once.
func adviseXIDs(xids []XID) (warnings []Note) {
	type key struct{ index, code int }
	counts := map[key]int{}
	for _, x := range xids {
		counts[key{x.Index, x.Code}]++
	}
	for _, x := range xids {
		n := counts[key{x.Index, x.Code}]
		if n == 0 {
			continue
		}
		delete(counts, key{x.Index, x.Code})
		note := x.note()
		if n > 1 {
			note.Text += " (" + units.Plural(n, "time") + ")"
		}
		warnings = append(warnings, note)
	}
	return warnings
}

func hours(seconds float64) string {
	if seconds < 7200 {
		return fmt.Sprintf("%.0f minutes", max(0, seconds)/60)
	}
	return fmt.Sprintf("%.0f hours", seconds/3600)
}
