package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

const memoryBarWide = 30

// facts returns the lines above the chart.
func (p *nodePage) facts(st styles, x stats.Status, n stats.NodeStatus, width int) []string {
	round := fmt.Sprintf("%s of %s done", fmt.Sprint(n.Round), units.Plural(x.Rounds, "round"))
	if event.State(n.State) == event.StateReplaying {
		round = fmt.Sprintf("replays round %d of %d", n.WorkingRound+1, n.Round)
	}
	state := st.good
	if event.State(n.State) == event.StateFailed || event.State(n.State) == event.StateGivenUp {
		state = st.bad
	}
	process, batch, replayed := "no process", "", ""
	if n.PID != 0 {
		process = fmt.Sprintf("pid %d", n.PID)
		if n.EnginePID != 0 {
			process += fmt.Sprintf(", engine %d", n.EnginePID)
		}
	}
	if n.Worker != "" {
		process = "of worker " + n.Worker
	}
	from, generates := "", ""
	if n.From > 0 {
		from = fmt.Sprintf("from round %d", n.From)
	}
	if n.GenerateOnly {
		generates = "generates only"
	}
	if n.MicroBatch > 0 {
		batch = "micro-batch " + fmt.Sprint(n.MicroBatch)
	}
	if n.ReplayedRounds > 0 {
		replayed = fmt.Sprintf("%s replayed in %s", units.Plural(n.ReplayedRounds, "update"), units.Span(n.ReplaySeconds))
	}
	out := []string{
		st.title.Render(n.ID) + "  " + state.Render(n.State) + "  " + round,
		wording.Dotted("reward "+reward(n.Reward), "last 10 "+reward(n.RecentReward), fmt.Sprintf("cumulative %.2f", n.CumulativeReward)),
		memoryFacts(st, n, width),
		wording.Dotted(modelName(n), n.Device, process, batch, units.Plural(n.Restarts, "restart"), replayed, from, generates),
	}
	if held := heldOut(p.history.HeldOut); held != "" {
		out = slices.Insert(out, 2, held)
	}
	if note := wording.Why(n.Cause, n.Message); note != "" {
		out = append(out, st.bad.Render(ansi.Truncate(note, width, "…")))
	}
	if p.trouble != "" {
		out = append(out, st.bad.Render(p.trouble))
	}
	return out
}

// heldOut describes the newest held-out reward and the first one. It is empty without evaluations.
func heldOut(rewards []HeldOut) string {
	tell := func(h HeldOut) string {
		if h.Round == 0 {
			return fmt.Sprintf("%.3f untrained", h.Reward)
		}
		return fmt.Sprintf("%.3f after %s", h.Reward, units.Plural(h.Round, "round"))
	}
	switch n := len(rewards); n {
	case 0:
		return ""
	case 1:
		return "held-out " + tell(rewards[0])
	default:
		return fmt.Sprintf("held-out %s, %s", tell(rewards[n-1]), tell(rewards[0]))
	}
}

// memoryFacts describes the node's memory, relative to its budget if it has one.
func memoryFacts(st styles, n stats.NodeStatus, width int) string {
	parts := []string{"peak " + units.BytesMeasured(n.PeakMemoryBytes)}
	if n.ResidentBytes > 0 {
		parts = append(parts, "resident "+units.BytesMeasured(n.ResidentBytes), "transient "+units.BytesMeasured(n.TransientBytes))
	}
	if n.DevicePeakBytes == 0 && n.PeakHostBytes > 0 {
		parts = append(parts, "by "+strings.ToUpper(n.HostKind))
	}
	if n.BudgetBytes <= 0 {
		return wording.Dotted(append([]string{"memory " + units.BytesMeasured(n.MemoryBytes)}, parts...)...)
	}
	share := float64(n.MemoryBytes) / float64(n.BudgetBytes)
	style := st.good
	if n.PeakMemoryBytes > n.BudgetBytes {
		style = st.bad
	}
	text := fmt.Sprintf("%s of %s budget · %s", units.BytesMeasured(n.MemoryBytes), units.BytesMeasured(n.BudgetBytes), wording.Dotted(parts...))
	cells := min(memoryBarWide, width-len("memory ")-ansi.StringWidth(text)-1)
	if cells < 5 {
		return "memory " + text
	}
	return "memory " + style.Render(bar(share, cells)) + " " + text
}
