package terminal

import (
	"fmt"
	"strconv"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Limits of a curve on a terminal: height and width of the plot, and rounds in the table below it.
const (
	plotHeight = 10
	plotWidth  = 100
	plotRounds = 20
)

// PrintCurves writes the curves for one name against an axis. A single run against rounds shows its lowest and highest
// node. Anything else shows the interval over seeds.
func PrintCurves(p *table.Page, c stats.NamedCurves, per string, all bool) {
	perRounds := per == stats.PerRounds
	if len(c.Experiments) == 1 && len(c.Experiments[0].Runs) < 2 && perRounds {
		PrintCurve(p, c.Newest, all)
		return
	}
	for i, e := range c.Experiments {
		if i > 0 {
			p.Println()
		}
		PrintExperimentCurve(p, e, all)
		if len(e.Runs) < 2 || perRounds {
			continue
		}
		for _, l := range e.Single {
			p.Println()
			one := stats.ExperimentCurve{Experiment: l.Run, Metric: e.Metric, Window: e.Window, Per: e.Per, Currency: e.Currency, Seeds: 1, X: l.X, Mean: l.Mean}
			PrintExperimentCurve(p, one, all)
		}
	}
	for _, run := range c.Runs {
		if perRounds {
			p.Println()
			PrintCurve(p, run, all)
		}
	}
}

// PrintCurve writes a plot and about plotRounds rounds to a terminal. With all, or to a pipe, it writes every round.
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
		p.Printf("%d of %s. --all prints all.\n", t.Len(), units.Plural(len(c.Round), "round"))
	}
}

// PrintExperimentCurve writes a plot and a table of a mean over seeds with its 95 % interval, in the form of
// PrintCurve.
func PrintExperimentCurve(p *table.Page, c stats.ExperimentCurve, all bool) {
	smoothed := "moving average over " + units.Plural(c.Window, "round")
	if c.Window == 1 {
		smoothed = "not smoothed"
	}
	axis, err := stats.AxisOf(c.Per)
	if err != nil {
		axis.Label = c.Per
	}
	if len(c.X) == 0 {
		p.Printf("%s: its %s is not recorded.\n", charset.Shown(c.Experiment), axis.Label)
		if c.Per == "money" {
			p.Println("A run has a cost only if it was started with --price.")
		}
		return
	}
	p.Printf("%s: %s against %s, %s, mean over %s\n", charset.Shown(c.Experiment), c.Metric, axis.Label, smoothed, units.Plural(c.Seeds, "seed"))
	every := 1
	if p.Width > 0 && !all && len(c.X) > plotRounds {
		every = (len(c.X) + plotRounds - 1) / plotRounds
		width := min(p.Width, plotWidth)
		p.Println()
		p.Lines(Plot(stats.RunLine{X: c.X, Mean: c.Mean}.Even(2*width), width, plotHeight, curveValue))
		p.Println()
	}
	columns := []table.Column{{Title: axis.Name, Right: true}, {Title: "mean", Right: true}}
	if c.Seeds > 1 {
		columns = append(columns, table.Column{Title: "95 % from", Right: true, Drop: 1}, table.Column{Title: "to", Right: true, Drop: 1})
	}
	t := table.New(columns...)
	for i, x := range c.X {
		if i%every > 0 && i < len(c.X)-1 {
			continue
		}
		cells := []string{axisText(c, x), curveValue(c.Mean[i])}
		if c.Seeds > 1 {
			cells = append(cells, curveValue(c.Low[i]), curveValue(c.High[i]))
		}
		t.Add(cells...)
	}
	p.Table(t)
	if t.Len() < len(c.X) {
		p.Printf("%d of %s. --all prints all.\n", t.Len(), units.Plural(len(c.X), "place"))
	}
}

// axisText formats a value of a curve's axis.
func axisText(c stats.ExperimentCurve, x float64) string {
	switch axis, err := stats.AxisOf(c.Per); {
	case err != nil:
	case axis.IsMoney():
		return units.Money(x, c.Currency)
	case axis.Unit == "seconds":
		return units.Exactly(x)
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}

func curveValue(v float64) string {
	if !units.Finite(v) {
		return "–"
	}
	return fmt.Sprintf("%.4g", v)
}
