package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// columnOf is a column of a table whose rows are values of type N.
type columnOf[N any] struct {
	title string
	width int // without the gap before the column
	left  bool
	drop  int // on a narrow terminal, columns with the highest number are dropped first; 0: never
	text  func(N) string
}

// column is a column of the table of nodes.
type column = columnOf[stats.NodeStatus]

// tableOf returns a table with one row per value. Columns are as wide as their cells.
func tableOf[N any](columns []columnOf[N], rows []N) *table.Table {
	t := table.New()
	for _, c := range columns {
		t.Columns = append(t.Columns, table.Column{Title: c.title, Right: !c.left, Drop: c.drop})
	}
	for _, r := range rows {
		var cells []string
		for _, c := range columns {
			cells = append(cells, c.text(r))
		}
		t.Add(cells...)
	}
	return t
}

const roundWidth = 6

// nodeColumns returns the columns of the live view. Together they take 75 cells, or 84 with the columns for other
// hosts' nodes.
func nodeColumns(shared bool) []column {
	columns := []column{
		{"NODE", 9, true, 0, func(n stats.NodeStatus) string { return n.ID }},
		{"STATE", 10, true, 0, func(n stats.NodeStatus) string { return n.State }},
		{"ROUND", roundWidth, false, 1, roundOf},
		{"REWARD", 6, false, 2, func(n stats.NodeStatus) string { return reward(n.Reward) }},
		{"LAST 10", 7, false, 5, func(n stats.NodeStatus) string { return reward(n.RecentReward) }},
		{"MEMORY", 7, false, 3, func(n stats.NodeStatus) string { return units.BytesMeasured(n.MemoryBytes) }},
		{"PEAK", 7, false, 4, func(n stats.NodeStatus) string { return units.BytesMeasured(n.PeakMemoryBytes) }},
		{"RESTARTS", 8, false, 6, func(n stats.NodeStatus) string { return fmt.Sprint(n.Restarts) }},
		{"PID", 7, false, 7, func(n stats.NodeStatus) string {
			if n.PID == 0 {
				return "–"
			}
			return fmt.Sprint(n.PID)
		}},
	}
	if shared {
		columns = slices.Insert(columns, 1, column{"WORKER", 8, true, 6, func(n stats.NodeStatus) string { return n.Worker }})
	}
	return columns
}

// withModels adds a column of models if nodes have different ones.
func withModels(columns []column, nodes []stats.NodeStatus) []column {
	if !slices.ContainsFunc(nodes, func(n stats.NodeStatus) bool { return n.Model != "" }) {
		return columns
	}
	return slices.Insert(columns, 1, column{"MODEL", 8, true, 6, modelName})
}

// modelName returns the name of a preset, or the last part of a folder.
func modelName(n stats.NodeStatus) string {
	return n.Model[strings.LastIndexByte(n.Model, '/')+1:]
}

// roundOf formats a node's finished rounds. For a node that reapplies logged updates it formats its progress: 12/17.
func roundOf(n stats.NodeStatus) string {
	if event.State(n.State) != event.StateReplaying {
		return fmt.Sprint(n.Round)
	}
	at := fmt.Sprint(n.WorkingRound + 1)
	if both := at + "/" + fmt.Sprint(n.Round); n.WorkingRound < n.Round && len(both) <= roundWidth {
		return both
	}
	return at
}

// trouble returns the cause of a node's end. It omits CauseStopped, which the state already shows.
func trouble(n stats.NodeStatus) string {
	if n.Cause == event.CauseStopped {
		return ""
	}
	return n.Cause
}

// minNote is the minimum width of the column of notes.
const minNote = 20

// fit drops columns until the rest fits width cells, and adds a column of notes if there is space.
func fit(columns []column, width int) []column {
	for {
		total, worst := len(columns)-1, -1
		for i, c := range columns {
			total += c.width
			if c.drop > 0 && (worst < 0 || c.drop > columns[worst].drop) {
				worst = i
			}
		}
		if left := width - total - 2; left >= minNote {
			return append(columns, column{" NOTE", left + 1, true, 0, func(n stats.NodeStatus) string {
				if note := wording.Why(trouble(n), n.Message); note != "" {
					return " " + note
				}
				return ""
			}})
		}
		if total <= width || worst < 0 {
			return columns
		}
		columns = append(columns[:worst:worst], columns[worst+1:]...)
	}
}

// cell pads or cuts text to width cells.
func cell(text string, width int, left bool) string {
	text = ansi.Truncate(text, width, "…")
	pad := strings.Repeat(" ", width-ansi.StringWidth(text))
	if left {
		return text + pad
	}
	return pad + text
}

// row renders one line of the table. A nil n renders the header.
func row(columns []column, n *stats.NodeStatus) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		text := c.title
		if n != nil {
			text = c.text(*n)
		}
		cells[i] = cell(text, c.width, c.left)
	}
	return strings.TrimRight(strings.Join(cells, " "), " ")
}
