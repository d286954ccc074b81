package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// printPower prints the seeds that each comparison needs.
func printPower(p *table.Page, x Power, seeds int) {
	switch {
	case x.Pairs == 0:
		return
	case !slices.ContainsFunc(x.Experiments, func(a PowerArm) bool { return a.Deviation != nil }):
		p.Printf("seeds     not known how many show a difference: no experiment of this model has five finished seeds here, or two with three each\n")
	default:
		p.Printf("seeds     per experiment to decide a difference with a chance of 80 %% (in brackets: the chance with %s)\n", units.Plural(seeds, "seed"))
		p.Table(powerTable(x))
		p.Printf("          By the permutation test and Welch's test, at 0.05 shared by %s, if the others show nothing.\n"+
			"          Simulated up to eight seeds a side. Above that, computed for Welch's test.\n%s", units.Plural(x.tests, x.comparison()), x.origins())
	}
	p.Printf("%s", x.tooFew(seeds))
}

func powerTable(x Power) *table.Table {
	columns := []table.Column{{Title: "comparison"}}
	for _, r := range x.Rows {
		columns = append(columns, table.Column{Title: fmt.Sprintf("%.3g", r.Difference), Right: true})
	}
	t := table.New(columns...)
	t.Indent = 10
	for _, c := range x.Comparisons {
		cells := []string{c.A + " against " + c.B}
		for _, r := range c.Rows {
			cells = append(cells, r.text())
		}
		t.Add(cells...)
	}
	return t
}

// text formats a row: "6 (71 %)".
func (r PowerRow) text() string {
	switch {
	case r.Power == nil:
		return "unknown"
	case r.Seeds == nil:
		return fmt.Sprintf(">%d (%.0f %%)", sample.MaxSeeds, 100**r.Power)
	}
	return fmt.Sprintf("%d (%.0f %%)", *r.Seeds, 100**r.Power)
}

// origins says which runs the deviations come from, with a line for each basis.
func (p Power) origins() string {
	text := "          Standard deviation between seeds (degrees of freedom):\n"
	for _, basis := range []struct{ name, runs string }{
		{basisOwn, "of its own runs"}, {basisAlike, "of like runs of other studies"},
		{basisPooled, "pooled over other experiments, which may vary more or less"}, {"", "unknown: too few runs"},
	} {
		var arms []string
		for _, a := range p.Experiments {
			switch {
			case a.Basis != basis.name:
			case a.Deviation == nil:
				arms = append(arms, a.Name)
			default:
				arms = append(arms, fmt.Sprintf("%s %.2g (%d)", a.Name, *a.Deviation, a.Freedom))
			}
		}
		if arms != nil {
			text += fmt.Sprintf("          * %s: %s\n", basis.runs, strings.Join(arms, ", "))
		}
	}
	return text
}

// tooFew returns a warning if the planned seeds cannot decide.
func (p Power) tooFew(seeds int) string {
	if seeds >= p.Least {
		return ""
	}
	return fmt.Sprintf("          %s cannot decide, however large the difference: plan at least %d (--seeds %d)\n", units.Plural(seeds, "seed"), p.Least, p.Least)
}

// comparison returns the noun for the tests that share the level.
func (p Power) comparison() string {
	if p.planned {
		return "planned comparison"
	}
	return "comparison"
}
