package terminal

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Place holds the location of a run's data and suggested next commands.
type Place struct {
	Database string   // path
	Folder   string   // folder of the run: checkpoints and logs
	Next     []string // commands
}

// Summary writes the results of a run. It uses neither color nor the terminal's width, so that the output suits files
// and logs.
func Summary(w io.Writer, s stats.Summary, place Place) error {
	s.Status = cleanStatus(s.Status)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d of %s in %s\n", strings.TrimSpace(s.Experiment+" "+s.State), s.Round, units.Plural(s.Rounds, "round"), units.Span(s.ElapsedSeconds))
	if s.Message != "" {
		fmt.Fprintln(&b, s.Message)
	}
	fmt.Fprintln(&b)
	fact := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-18s %s\n", name, value)
		}
	}
	fact("cumulative reward", fmt.Sprintf("%.2f", s.CumulativeReward))
	if s.FirstReward != nil && s.LastReward != nil {
		edge := units.Plural(s.EdgeRounds, "round")
		fact("mean reward", fmt.Sprintf("%s (first %s) → %s (last %s)", reward(s.FirstReward), edge, reward(s.LastReward), edge))
	}
	fact("held-out reward", heldOutReward(s.Status))
	if s.SecondsPerRound != nil {
		fact("pace", perRound(*s.SecondsPerRound))
	}
	if s.Cost != nil && s.PricePerHour != nil {
		fact("cost", fmt.Sprintf("%s (%s at %s)", units.Money(*s.Cost, s.PriceCurrency), units.Span(s.ElapsedSeconds),
			units.PerHour(*s.PricePerHour, s.PriceCurrency)))
	}
	if s.Attempts > 1 {
		fact("attempts", fmt.Sprintf("%d (%s; %s with the pauses)", s.Attempts, resumed(s.Status), units.Span(s.LastSeen-s.Started)))
	}
	fact("restarts", fmt.Sprint(s.Restarts))
	if s.ReplayedRounds > 0 {
		fact("replayed", units.Plural(s.ReplayedRounds, "update")+" from the nodes' journals")
	}
	if s.WorkersConnected > 0 && !over(s.Status) {
		fact("workers", workers(s.Status))
	} else if s.Workers > 0 {
		fact("workers", fmt.Sprint(s.Workers))
	}
	if lost := inState(s.Nodes, event.StateGivenUp); lost > 0 {
		fact("given up", units.Plural(lost, "node"))
	}
	fmt.Fprintln(&b)
	columns := withModels(summaryColumns(s.Workers > 0), s.Nodes)
	screen := table.Screen{ASCII: charset.ASCIIOnly(os.Environ())}
	for _, line := range notedTable(columns, s.Nodes).Lines(screen) { // not cut to a width, because the output may not be a terminal
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintln(&b)
	fact("run", s.Run)
	if s.Command != nil {
		fact("command", charset.Line(s.Command.Line))
	}
	fact("database", place.Database)
	fact("folder", place.Folder)
	name := "next"
	for _, next := range place.Next {
		fact(name, next)
		name = ""
	}
	if _, err := io.WriteString(w, charset.Fit(b.String(), os.Environ())); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// inState counts the nodes in a state.
func inState(nodes []stats.NodeStatus, state event.State) int {
	n := 0
	for _, node := range nodes {
		if event.State(node.State) == state {
			n++
		}
	}
	return n
}

// summaryColumns returns the columns that remain meaningful after the run.
func summaryColumns(shared bool) []column {
	columns := []column{
		{"NODE", 9, true, 0, func(n stats.NodeStatus) string { return n.ID }},
		{"STATE", 10, true, 0, func(n stats.NodeStatus) string { return n.State }},
		{"ROUNDS", 6, false, 0, func(n stats.NodeStatus) string { return fmt.Sprint(n.Round) }},
		{"CUMULATIVE", 10, false, 0, func(n stats.NodeStatus) string { return fmt.Sprintf("%.2f", n.CumulativeReward) }},
		{"LAST 10", 7, false, 0, func(n stats.NodeStatus) string { return reward(n.RecentReward) }},
		{"PEAK MEMORY", 11, false, 0, func(n stats.NodeStatus) string { return units.BytesMeasured(n.PeakMemoryBytes) }},
		{"RESTARTS", 8, false, 0, func(n stats.NodeStatus) string { return fmt.Sprint(n.Restarts) }},
		{"NOTE", 30, true, 0, trouble},
	}
	if shared {
		columns = slices.Insert(columns, 1, column{"WORKER", 8, true, 0, func(n stats.NodeStatus) string { return n.Worker }})
	}
	return columns
}

// heldOutReward describes the newest evaluation and the first of the same questions. It is empty without evaluations.
func heldOutReward(x stats.Status) string {
	if x.EvalReward == nil {
		return ""
	}
	newest := fmt.Sprintf("%s (after %s)", reward(x.EvalReward), units.Plural(x.EvalRound, "round"))
	if x.FirstEvalReward == nil {
		return newest
	}
	return reward(x.FirstEvalReward) + " (first) → " + newest
}
