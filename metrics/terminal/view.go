package terminal

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// styles of the live view.
type styles struct {
	title, faint, good, bad, mark lipgloss.Style
}

// newStyles returns the styles for a terminal. Without color, styles differ only in weight.
func newStyles(color bool) styles {
	s := styles{
		title: lipgloss.NewStyle().Bold(true), faint: lipgloss.NewStyle().Faint(true), mark: lipgloss.NewStyle().Reverse(true),
		good: lipgloss.NewStyle(), bad: lipgloss.NewStyle().Bold(true),
	}
	if color {
		s.good = s.good.Foreground(lipgloss.Green)
		s.bad = s.bad.Foreground(lipgloss.Red)
	}
	return s
}

// screen is the state of the page of a run.
type screen struct {
	status stats.Status
	known  bool     // status was polled at least once
	lines  []string // events, newest last
	page   string   // URL of the run's dashboard; empty: none
	join   string   // instruction for joining, shown until a worker joins; empty: joining is not possible

	cursor int // selected node; none: no selection
	top    int // first visible node
	rows   int // visible nodes in the last frame

	width, height int
}

// none is the cursor of a printed screen.
const none = -1

const (
	shownLines = 5 // events at the bottom

	// A screen lower than roomy has no space between its parts and only one event. A screen lower than tight shows only
	// the line of the run and its nodes.
	roomy, tight = 16, 10
)

// render draws at most height lines of at most width cells.
func (s *screen) render(st styles) []string {
	if !s.known {
		return fitted([]string{st.faint.Render("waiting for the run's first event …")}, s.width, s.height)
	}
	out := s.header(st)
	events := s.lines[max(0, len(s.lines)-s.events()):]
	gap := 0
	if s.height >= tight {
		gap = 1
		out = append(out, "")
	}
	room := s.height - len(out) - len(events)
	if len(events) > 0 {
		room -= gap
	}
	out = append(out, s.table(st, max(2, room))...)
	if len(events) > 0 {
		out = append(append(out, make([]string, gap)...), events...)
	}
	return fitted(out, s.width, s.height)
}

// events returns the number of events that fit the screen.
func (s *screen) events() int {
	switch {
	case s.height >= roomy:
		return shownLines
	case s.height >= tight:
		return 1
	}
	return 0
}

// fitted cuts each line to width cells, and returns at most height lines.
func fitted(lines []string, width, height int) []string {
	lines = lines[:max(0, min(len(lines), height))]
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, width, "…")
	}
	return lines
}

func (s *screen) header(st styles) []string {
	x := s.status
	state := st.good
	if x.State != "running" && x.State != "done" {
		state = st.bad
	}
	progress := fmt.Sprintf("round %d/%d", x.Round, x.Rounds)
	if s.height < tight {
		return []string{state.Render(x.State) + fmt.Sprintf(" %d/%d %s", x.Round, x.Rounds, reward(x.Reward))}
	}
	share := 0.0
	if x.Rounds > 0 {
		share = float64(x.Round) / float64(x.Rounds)
	}
	percent := fmt.Sprintf("%3.0f %%", share*100)
	cells := max(5, min(60, s.width-len(x.State)-len(progress)-len(percent)-6))
	held := ""
	if x.EvalReward != nil {
		held = fmt.Sprintf("held-out %s after %s", reward(x.EvalReward), units.Plural(x.EvalRound, "round"))
	}
	result := wording.Dotted("reward "+reward(x.Reward), fmt.Sprintf("cumulative %.2f", x.CumulativeReward), held)
	out := []string{
		st.title.Render(x.Experiment) + st.faint.Render(" · "+wording.Dotted(x.Model, x.Device, "run "+x.Run)),
		state.Render(x.State) + "  " + progress + "  " + bar(share, cells) + " " + percent,
	}
	if s.height < roomy {
		return append(out, result)
	}
	out = append(out, paceLine(x))
	if cost := costLine(x); cost != "" {
		out = append(out, cost)
	}
	out = append(out, result+st.good.Render(trendIn(x.RecentRewards, result, s.width)))
	if s.page != "" {
		out = append(out, "dashboard "+s.page)
	}
	if s.join != "" && x.Workers == 0 {
		out = append(out, "others can join: "+s.join)
	}
	return out
}

// paceLine describes the speed of the run and its memory.
func paceLine(x stats.Status) string {
	pace, eta, restarts := "", "", ""
	if x.SecondsPerRound != nil {
		pace = perRound(*x.SecondsPerRound)
	}
	if x.ETASeconds != nil && x.Round < x.Rounds {
		eta = "eta " + units.Span(*x.ETASeconds)
	}
	if x.Restarts > 0 {
		restarts = units.Plural(x.Restarts, "restart")
	}
	return wording.Dotted("elapsed "+units.Span(x.ElapsedSeconds), eta, pace, alive(x), workers(x), "mem "+units.BytesMeasured(x.MemoryBytes), restarts, resumed(x))
}

func perRound(s float64) string {
	return units.Span(s) + "/round" // for example 3.1 s/round, 42s/round
}

// alive counts the active nodes. For an ended run it counts the nodes that took part.
func alive(x stats.Status) string {
	nodes := units.Plural(max(x.NodesPlanned, len(x.Nodes)), "node")
	if over(x) {
		return nodes
	}
	return fmt.Sprintf("%d/%s", x.NodesAlive, nodes)
}

// over reports whether the run has finished all rounds, or has ended in another state than lost. Absent nodes are then
// not missing.
func over(x stats.Status) bool {
	return x.State != store.RunRunning && x.State != store.RunLost || x.Rounds > 0 && x.Round >= x.Rounds
}

// workers counts the hosts that joined. It is empty if there are none.
func workers(x stats.Status) string {
	switch {
	case x.Workers == 0:
		return ""
	case over(x), x.WorkersConnected == x.Workers:
		return units.Plural(x.Workers, "worker")
	}
	return fmt.Sprintf("%d/%s", x.WorkersConnected, units.Plural(x.Workers, "worker"))
}

// table draws the nodes around the cursor in at most room lines. room must be at least 2.
func (s *screen) table(st styles, room int) []string {
	gutter := 0
	if s.cursor != none {
		gutter = 2
	}
	columns := withModels(nodeColumns(s.status.Workers > 0), s.status.Nodes)
	columns[0].width = s.nameWidth(columns[0].width)
	columns = fit(columns, s.width-gutter)
	out := []string{st.faint.Render(strings.Repeat(" ", gutter) + row(columns, nil))}
	nodes := s.status.Nodes
	s.rows = min(len(nodes), room-1)
	if s.rows < len(nodes) && room > 3 {
		s.rows-- // the line for nodes that do not fit
	}
	s.top = scrolled(s.top, s.cursor, s.rows, len(nodes))
	for i, n := range nodes[s.top : s.top+s.rows] {
		out = append(out, s.row(st, columns, n, s.top+i))
	}
	if s.rows < len(nodes) && room > 3 {
		rest := append(append([]stats.NodeStatus(nil), nodes[:s.top]...), nodes[s.top+s.rows:]...)
		note := fmt.Sprintf("and %d more: %s", len(rest), states(rest))
		if s.cursor != none {
			note = fmt.Sprintf("%d–%d of %d, not shown: %s", s.top+1, s.top+s.rows, len(nodes), states(rest))
		}
		out = append(out, st.faint.Render(note))
	}
	return out
}

const narrow, longestName = 34, 24

// nameWidth returns the width of the column of names: usual, more for long names, and on a narrow terminal only as much
// as needed.
func (s *screen) nameWidth(usual int) int {
	width := len("NODE")
	for _, n := range s.status.Nodes {
		width = max(width, min(longestName, ansi.StringWidth(n.ID)))
	}
	if s.width < narrow {
		return min(width, usual)
	}
	return max(width, usual)
}

func (s *screen) row(st styles, columns []column, n stats.NodeStatus, i int) string {
	line := row(columns, &n)
	switch event.State(n.State) {
	case event.StateFailed, event.StateGivenUp:
		line = st.bad.Render(line)
	case event.StateDone:
		line = st.good.Render(line)
	case event.StateAway:
		line = st.faint.Render(line)
	}
	switch s.cursor {
	case none:
		return line
	case i:
		return st.title.Render(">") + " " + line
	}
	return "  " + line
}

// scrolled returns the first of n rows to show. It is close to top, and keeps the cursor visible.
func scrolled(top, cursor, shown, n int) int {
	if cursor >= 0 {
		top = max(min(top, cursor), cursor-shown+1)
	}
	return max(0, min(top, n-shown))
}
