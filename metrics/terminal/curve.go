package terminal

import (
	"fmt"
	"strconv"

	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Of a curve a terminal shows a plot of so many lines and, beneath it, at most so many rounds.
const (
	plotHeight = 10
	plotWidth  = 100
	plotRounds = 20
)

// PrintCurve writes a plot and about plotRounds of its rounds to a terminal; with all, and to a pipe, it writes every round.
func PrintCurve(p *table.Page, c stats.Curve, all bool) {
	smoothed := "moving average over " + units.Plural(c.Window, "round")
	if c.Window == 1 {
		smoothed = "not smoothed"
	}
	p.Printf("%s: %s, %s, of %s\n", c.Run, c.Metric, smoothed, units.Plural(len(c.Nodes), "node"))
	every := 1
	if p.Width > 0 && !all && len(c.Round) > plotRounds {
		every = (len(c.Round) + plotRounds - 1) / plotRounds
		p.Println()
		p.Lines(Plot(c.Mean, min(p.Width, plotWidth), plotHeight, curveValue))
		p.Println()
	}
	t := table.New(table.Column{Title: "round", Right: true}, table.Column{Title: "mean", Right: true},
		table.Column{Title: "lowest", Right: true, Drop: 1}, table.Column{Title: "highest", Right: true, Drop: 1})
	for i, round := range c.Round {
		if i%every == 0 || i == len(c.Round)-1 {
			t.Add(strconv.Itoa(round), curveValue(c.Mean[i]), curveValue(c.Low[i]), curveValue(c.High[i]))
		}
	}
	p.Table(t)
	if t.Len() < len(c.Round) {
		p.Printf("%d of %s; --all prints all.\n", t.Len(), units.Plural(len(c.Round), "round"))
	}
}

func curveValue(v float64) string {
	if !units.Finite(v) {
		return "–"
	}
	return fmt.Sprintf("%.4g", v)
}
