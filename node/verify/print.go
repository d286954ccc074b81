package verify

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
)

// Document is the result of verifying a run.
type Document struct {
	Run        string `json:"run"`
	Experiment string `json:"experiment"`
	State      string `json:"state"` // the run's state
	Device     string `json:"device"`
	Report
}

// Print shows the result.
func (v Document) Print(out *table.Page) {
	spent := units.Seconds(v.Seconds).Round(time.Second)
	fmt.Fprintf(out, "%s: %s made again in %s, %s\n\n", v.Run, units.Plural(v.Rounds, "node-round"), spent, v.compared())
	t := table.New(table.Column{Title: "node"}, table.Column{Title: "rounds", Right: true}, table.Column{Title: "checkpoints", Right: true, Drop: 2},
		table.Column{Title: "equal weights", Right: true, Drop: 1}, table.Column{Title: "result", Wrap: true})
	for _, n := range v.Nodes {
		t.Add(n.Node, strconv.Itoa(n.Rounds), strconv.Itoa(n.Checkpoints), strconv.Itoa(n.EqualHashes), outcomeOf(n))
	}
	out.Table(t)
	for _, n := range v.Nodes {
		for _, d := range n.Differences {
			fmt.Fprintf(out, "\n%s round %d: %s in the %s is %s, expected %s\n", d.Node, d.Round, d.What, d.Where, short(d.Found), short(d.Expected))
		}
		if n.Damage != "" {
			fmt.Fprintf(out, "\n%s: %s\n", n.Node, n.Damage)
		}
		for _, note := range n.Notes {
			fmt.Fprintf(out, "\n%s: %s\n", n.Node, note)
		}
	}
}

// compared describes what was compared.
func (v Document) compared() string {
	what := "bit for bit"
	if !v.Exact {
		what = "weights and losses for information only: " + v.Inexact
	}
	if v.Generated {
		what += ", completions generated again"
	}
	return what
}

func outcomeOf(n NodeReport) string {
	switch {
	case n.Damage != "":
		return "damaged"
	case len(n.Differences) > 0:
		return "differs"
	}
	return "verified"
}

// short truncates a long value.
func short(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
