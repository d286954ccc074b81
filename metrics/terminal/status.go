package terminal

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// printedWidth is the width for bars and trends if the output is not a terminal.
const printedWidth = 100

// leastTrend is the shortest trend that is drawn.
const leastTrend = 8

// PrintStatus prints a run's status once, as the live view's header and nodes, without color.
func PrintStatus(p *table.Page, x stats.Status) {
	x = cleanStatus(x)
	s := screen{status: x, known: true, width: drawnWidth(p), height: roomy, cursor: none}
	for _, line := range s.header(newStyles(false)) {
		p.Println(strings.TrimRight(ansi.Strip(line), " "))
	}
	p.Println()
	p.Table(nodesTable(x))
	if h := x.EngineHost; h != nil {
		p.Printf("\nengine host: %s in addition to the nodes' memory (process %d)\n", units.BytesMeasured(cmp.Or(h.PSSBytes, h.RSSBytes)), h.PID)
	}
	if x.Message != "" {
		p.Printf("\n%s\n", x.Message)
	}
	if a := x.Alarm; a != nil {
		p.Printf("\n%s\n", wording.Event(event.Event{Type: event.TypeAlarm, Alarm: &a.Alarm, Message: a.Try}))
	}
}

// drawnWidth returns the maximum width of bars and trends.
func drawnWidth(p *table.Page) int {
	if p.Width > 0 {
		return p.Width
	}
	return printedWidth
}

// nodesTable returns a table with one row per node and the columns of the live view.
func nodesTable(x stats.Status) *table.Table {
	columns := withModels(nodeColumns(x.Workers > 0), x.Nodes)
	return notedTable(append(columns, column{"NOTE", minNote, true, 0, func(n stats.NodeStatus) string { return wording.Colons(trouble(n), n.Message) }}), x.Nodes)
}

// notedTable returns a table with one row per node. The last column holds notes, and is omitted if all are empty.
func notedTable(columns []column, nodes []stats.NodeStatus) *table.Table {
	t := tableOf(columns, nodes)
	last := &t.Columns[len(columns)-1]
	last.Wrap, last.Optional = true, true
	return t
}

// trendIn returns a sparkline of values that fits behind text in width cells. It is empty if there is too little space.
func trendIn(values []float64, text string, width int) string {
	room := min(60, width-ansi.StringWidth(text)-2)
	if room < leastTrend {
		return ""
	}
	return fmt.Sprint("  ", sparkline(values, room))
}
