package terminal

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// styles of the live view.
type styles struct {
	title, faint, good, bad lipgloss.Style
}

// newStyles returns the styles for a terminal; without colour they differ in weight alone.
func newStyles(color bool) styles {
	s := styles{
		title: lipgloss.NewStyle().Bold(true), faint: lipgloss.NewStyle().Faint(true),
		good: lipgloss.NewStyle(), bad: lipgloss.NewStyle().Bold(true),
	}
	if color {
		s.good = s.good.Foreground(lipgloss.Green)
		s.bad = s.bad.Foreground(lipgloss.Red)
	}
	return s
}

// screen is everything a frame shows.
type screen struct {
	status stats.Status
	known  bool     // status was polled at least once
	lines  []string // newest last
	// trouble is why there are no news; empty where there are
	trouble string
	help    string
	width   int
	height  int
}

const (
	shownLines = 5 // events at the bottom
	minWidth   = 20
)

// render draws a frame of at most height lines of at most width cells.
func (s screen) render(st styles) string {
	width := max(minWidth, s.width)
	var out []string
	if s.known {
		out = s.header(st, width)
	} else {
		out = []string{st.faint.Render("waiting for the run's first event …")}
	}
	foot := s.foot(st, width)
	if s.known {
		out = append(out, "")
		room := s.height - len(out) - len(foot) - 1
		out = append(out, s.table(st, width, max(2, room))...)
	}
	out = append(out, foot...)
	for i, line := range out {
		out[i] = ansi.Truncate(line, width, "…")
	}
	if s.height > 0 && len(out) > s.height {
		out = out[:s.height]
	}
	return strings.Join(out, "\n")
}

func (s screen) header(st styles, width int) []string {
	x := s.status
	share := 0.0
	if x.Rounds > 0 {
		share = float64(x.Round) / float64(x.Rounds)
	}
	progress := fmt.Sprintf("round %d/%d", x.Round, x.Rounds)
	percent := fmt.Sprintf("%3.0f %%", share*100)
	cells := max(10, min(60, width-len(x.State)-len(progress)-len(percent)-6))
	state := st.good
	if x.State != "running" && x.State != "done" {
		state = st.bad
	}
	result := dotted("reward "+reward(x.Reward), fmt.Sprintf("cumulative %.2f", x.CumulativeReward))
	trend := sparkline(x.RecentRewards, min(60, width-ansi.StringWidth(result)-2))
	out := []string{
		st.title.Render(x.Experiment) + st.faint.Render(" · "+dotted(x.Model, x.Device, "run "+x.Run)),
		state.Render(x.State) + "  " + progress + "  " + bar(share, cells) + " " + percent,
		paceLine(x),
	}
	if cost := costLine(x); cost != "" {
		out = append(out, cost)
	}
	return append(out, result+"  "+st.good.Render(trend))
}

// paceLine tells how fast the run is and what it uses.
func paceLine(x stats.Status) string {
	pace, eta, restarts := "", "", ""
	if x.SecondsPerRound != nil {
		pace = perRound(*x.SecondsPerRound)
	}
	if x.ETASeconds != nil {
		eta = "eta " + seconds(*x.ETASeconds)
	}
	if x.Restarts > 0 {
		restarts = count(x.Restarts, "restart")
	}
	return dotted("elapsed "+seconds(x.ElapsedSeconds), eta, pace, alive(x), "mem "+gigabytes(x.MemoryBytes), restarts, resumed(x))
}

func perRound(s float64) string {
	return seconds(s) + "/round" // 3.1 s/round, 42s/round
}

func alive(x stats.Status) string {
	return fmt.Sprintf("%d/%d nodes", x.NodesAlive, max(x.NodesPlanned, len(x.Nodes)))
}

func (s screen) table(st styles, width, room int) []string {
	columns := fit(nodeColumns(), width)
	out := []string{st.faint.Render(row(columns, nil))}
	nodes := s.status.Nodes
	var hidden []stats.NodeStatus
	if len(nodes) > room-1 {
		shown := max(1, room-2)
		nodes, hidden = nodes[:shown], nodes[shown:]
	}
	for _, n := range nodes {
		line := row(columns, &n)
		switch event.State(n.State) {
		case event.StateFailed, event.StateGivenUp:
			line = st.bad.Render(line)
		case event.StateDone:
			line = st.good.Render(line)
		}
		out = append(out, line)
	}
	if len(hidden) > 0 {
		out = append(out, st.faint.Render(fmt.Sprintf("and %d more: %s", len(hidden), states(hidden))))
	}
	return out
}

func (s screen) foot(st styles, width int) []string {
	var out []string
	lines := s.lines[max(0, len(s.lines)-shownLines):]
	if s.height > 0 && s.height < 16 {
		lines = lines[max(0, len(lines)-1):]
	}
	if len(lines) > 0 {
		out = append(out, "")
	}
	for _, line := range lines {
		out = append(out, ansi.Truncate(line, width, "…"))
	}
	out = append(out, "")
	if s.trouble != "" {
		out = append(out, st.bad.Render(s.trouble))
	}
	return append(out, st.faint.Render(s.help))
}
