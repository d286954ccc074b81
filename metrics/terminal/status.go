package terminal

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// printedWidth is how wide bars and trends are drawn where there is no terminal.
const printedWidth = 100

// leastTrend is the shortest trend that is worth its cells.
const leastTrend = 8

// PrintStatus writes a run's status once: the live view's header and its nodes, without colour.
func PrintStatus(p *table.Page, x stats.Status) {
	x = cleanStatus(x)
	s := screen{status: x, known: true, width: drawnWidth(p), height: roomy, cursor: none}
	for _, line := range s.header(newStyles(false)) {
		p.Println(strings.TrimRight(ansi.Strip(line), " "))
	}
	p.Println()
	p.Table(nodesTable(x))
	if h := x.EngineHost; h != nil {
		p.Printf("\nengine host: %s beside the nodes' memory (process %d)\n", units.BytesMeasured(cmp.Or(h.PSSBytes, h.RSSBytes)), h.PID)
	}
	if x.Message != "" {
		p.Printf("\n%s\n", x.Message)
	}
}

// drawnWidth is how wide bars and trends may be.
func drawnWidth(p *table.Page) int {
	if p.Width > 0 {
		return p.Width
	}
	return printedWidth
}

// nodesTable has a row a node, with the columns of the live view.
func nodesTable(x stats.Status) *table.Table {
	columns := withModels(nodeColumns(x.Workers > 0), x.Nodes)
	return notedTable(append(columns, column{"NOTE", minNote, true, 0, func(n stats.NodeStatus) string { return wording.Colons(trouble(n), n.Message) }}), x.Nodes)
}

// notedTable has a row a node. The last column holds notes, and is not there without any.
func notedTable(columns []column, nodes []stats.NodeStatus) *table.Table {
	t := tableOf(columns, nodes)
	last := &t.Columns[len(columns)-1]
	last.Wrap, last.Optional = true, true
	return t
}

// trendIn is the sparkline of values that fits behind text in width cells; nothing where there is hardly room.
func trendIn(values []float64, text string, width int) string {
	room := min(60, width-ansi.StringWidth(text)-2)
	if room < leastTrend {
		return ""
	}
	return fmt.Sprint("  ", sparkline(values, room))
}
