package terminal

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
)

// PrintEvaluations prints a run's evaluations by round, and the newest one by task. With folder set, it prints the only
// evaluation of a folder, whose run and rounds are unknown.
func PrintEvaluations(p *table.Page, e evaluation.Document, folder bool) {
	last := e.Rows[len(e.Rows)-1]
	if folder {
		p.Printf("%s: held-out evaluation\n\n", e.Run)
	} else {
		p.Printf("%s: held-out evaluation, I/J %s, seed %d\n\n", e.Run, e.Config, e.Seed)
	}
	p.Table(roundsEvaluated(e.Rows, last.Pass, folder))
	if folder {
		p.Printf("\nby task:\n")
	} else {
		p.Printf("\nafter %s:\n", units.Plural(last.Round, "round"))
	}
	p.Table(tasksEvaluated(e.Tasks, last.Pass))
	p.Printf("\nSet %s: %s, %s of each. Compare only evaluations of the same set.\n",
		last.Set, units.Plural(last.Questions, "question"), units.Plural(last.Generations, "completion"))
}

func roundsEvaluated(rows []evaluation.Row, pass []evaluation.Pass, folder bool) *table.Table {
	columns := []table.Column{
		{Title: "rounds", Right: true}, {Title: "nodes", Right: true, Drop: 3}, {Title: "reward", Right: true},
		{Title: "worst node", Right: true, Drop: 2}, {Title: "best node", Right: true, Drop: 2},
	}
	columns = append(columns, passColumns(pass)...)
	t := table.New(append(columns, table.Column{Title: "in tags", Right: true, Drop: 5}, table.Column{Title: "tokens", Right: true, Drop: 6},
		table.Column{Title: "set", Drop: 4})...)
	for _, r := range rows {
		rounds := strconv.Itoa(r.Round)
		if folder {
			rounds = "-"
		}
		row := []string{rounds, strconv.Itoa(r.Nodes), reward3(r.Reward), reward3(r.RewardLow), reward3(r.RewardHigh)}
		row = append(row, passes(r.Pass, pass)...)
		t.Add(append(row, known("%.2f", r.FormatRate), known("%.1f", r.MeanLength), r.Set)...)
	}
	return t
}

func tasksEvaluated(tasks []evaluation.Task, pass []evaluation.Pass) *table.Table {
	t := table.New(append([]table.Column{{Title: "task"}, {Title: "questions", Right: true, Drop: 2}, {Title: "reward", Right: true}},
		passColumns(pass)...)...)
	for _, r := range tasks {
		t.Add(append([]string{cmp.Or(charset.Shown(r.Task), "(file)"), strconv.Itoa(r.Questions), reward3(r.Reward)}, passes(r.Pass, pass)...)...)
	}
	return t
}

// passColumns returns the columns of pass@k. pass@1 is never dropped.
func passColumns(pass []evaluation.Pass) []table.Column {
	columns := make([]table.Column, len(pass))
	for i, p := range pass {
		columns[i] = table.Column{Title: fmt.Sprintf("pass@%d", p.K), Right: true, Drop: min(i, 1)}
	}
	return columns
}

func reward3(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

// passes returns a row's values in the order of columns.
func passes(has, columns []evaluation.Pass) []string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = "-"
		for _, p := range has {
			if p.K == c.K {
				cells[i] = reward3(p.Value)
			}
		}
	}
	return cells
}

// known formats an optional number.
func known(format string, v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

// ChosenBecause explains why a node was chosen. It is empty if the user named the node.
func ChosenBecause(c evaluation.Choice) string {
	switch c.By {
	case evaluation.ByHeldOut:
		return fmt.Sprintf("best held-out reward, %.3f after %s", c.Reward, units.Plural(c.Round, "round"))
	case evaluation.ByRecent:
		return fmt.Sprintf("best recent reward, %.3f", c.Reward)
	case evaluation.ByOrder:
		return "the first; no reward is recorded"
	}
	return ""
}
