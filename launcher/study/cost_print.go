package study

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
)

// PrintCost prints the cost for people: the runs, their time, and the origin of each figure.
func PrintCost(p *table.Page, s *Study, x Cost) {
	p.Printf("study     %s: %s\n", x.Study, x.Question)
	if x.Model != "" {
		p.Printf("model     %s, %s parameters\n", x.Model, units.Group(s.model.Shape.Parameters))
	}
	p.Printf("device    %s\n", deviceOf(x))
	p.Printf("runs      %s × %s = %d, one after the other\n\n", units.Plural(len(x.Experiments), "experiment"), units.Plural(x.Seeds, "seed"), x.Runs)
	notes := sourceNotes(x)
	p.Table(costTable(x, notes))
	p.Printf("\n%s\n", inAll(x))
	printPower(p, x.Power, x.Seeds)
	for i, note := range notes {
		p.Printf("[%d] %s\n", i+1, strings.ReplaceAll(note, "; ", ";\n    "))
	}
	p.Println()
}

// sourceNotes returns the distinct origins of the figures.
func sourceNotes(x Cost) []string {
	var notes []string
	for _, e := range x.Experiments {
		if !slices.Contains(notes, e.From) {
			notes = append(notes, e.From)
		}
	}
	return notes
}

func costTable(x Cost, notes []string) *table.Table {
	t := table.New(
		table.Column{Title: "experiment"}, table.Column{Title: "nodes", Right: true, Drop: 3}, table.Column{Title: "I/J", Drop: 4},
		table.Column{Title: "rounds", Right: true, Drop: 1}, table.Column{Title: "a round", Right: true, Drop: 2},
		table.Column{Title: "evaluations", Right: true, Drop: 5}, table.Column{Title: "a run", Right: true}, table.Column{Title: "from"},
	)
	for _, e := range x.Experiments {
		config := e.Config
		if e.Adaptive {
			config += ", adapted"
		}
		t.Add(e.Experiment, strconv.Itoa(e.Nodes), config, strconv.Itoa(e.Rounds), shortTime(e.RoundSeconds),
			fmt.Sprintf("%d × %s", e.Evaluations, shortTime(e.EvalSeconds)), runTime(e.Seconds), fmt.Sprintf("[%d]", slices.Index(notes, e.From)+1))
	}
	return t
}

func deviceOf(x Cost) string {
	if x.Device != fit.DeviceCUDA || len(x.GPUs) == 0 {
		return "CPU"
	}
	var names []string
	for _, gpu := range x.GPUs {
		names = append(names, gpu.Name)
	}
	return strings.Join(names, ", ")
}

// inAll returns the total together with its origin.
func inAll(x Cost) string {
	if x.Seconds == nil {
		return "in all    unknown. To measure: run ten rounds of one experiment (swarm up --config 8loc0ext --rounds 10, with the same model), then repeat this command"
	}
	worst := ""
	for _, e := range x.Experiments {
		if rateRank(e.Source) > rateRank(worst) {
			worst = e.Source
		}
	}
	text := "in all    about " + runTime(x.Seconds)
	if x.Cost != nil {
		text += fmt.Sprintf(", %s at %s", units.Money(*x.Cost, x.PriceCurrency), units.PerHour(*x.PricePerHour, x.PriceCurrency))
	}
	switch worst {
	case rateMeasured:
		return text + ", predicted from rounds measured here"
	case rateProfile:
		return text + ", predicted from a profile, no round of it measured"
	}
	return text + " at least, predicted from first principles, not measured"
}

// shortTime formats the seconds of a round.
func shortTime(seconds *float64) string {
	switch {
	case seconds == nil:
		return "–"
	case *seconds < 10:
		return fmt.Sprintf("%.2f s", *seconds)
	case *seconds < 120:
		return fmt.Sprintf("%.0f s", *seconds)
	}
	return units.Roughly(*seconds)
}

// runTime formats the time of a run like units.Roughly, but with hours to a tenth.
func runTime(seconds *float64) string {
	switch {
	case seconds == nil:
		return "–"
	case *seconds >= 90*60 && *seconds < 48*3600:
		return fmt.Sprintf("%.1f h", *seconds/3600)
	}
	return units.Roughly(*seconds)
}
