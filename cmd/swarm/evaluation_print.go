package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

// printEvaluations shows a run's evaluations by round, and the newest by task; of a folder, whose run and rounds nobody knows, its only one.
func printEvaluations(out io.Writer, e stats.Evaluations, folder bool) error {
	if folder {
		fmt.Fprintf(out, "%s: held-out evaluation\n\n", e.Run)
	} else {
		fmt.Fprintf(out, "%s: held-out evaluation, I/J %s, seed %d\n\n", e.Run, e.Config, e.Seed)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "rounds\tnodes\treward\tworst node\tbest node\t")
	last := e.Rows[len(e.Rows)-1]
	for _, p := range last.Pass {
		fmt.Fprintf(w, "pass@%d\t", p.K)
	}
	fmt.Fprint(w, "in tags\ttokens\tset\t\n")
	for _, r := range e.Rows {
		rounds := strconv.Itoa(r.Round)
		if folder {
			rounds = "-"
		}
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%.3f\t", rounds, r.Nodes, r.Reward, r.RewardLow, r.RewardHigh)
		passes(w, r.Pass, last.Pass)
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", known("%.2f", r.FormatRate), known("%.1f", r.MeanLength), r.Set)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if folder {
		fmt.Fprint(out, "\nby task:\n")
	} else {
		fmt.Fprintf(out, "\nafter %d rounds:\n", last.Round)
	}
	fmt.Fprint(w, "task\tquestions\treward\t")
	for _, p := range last.Pass {
		fmt.Fprintf(w, "pass@%d\t", p.K)
	}
	fmt.Fprintln(w)
	for _, t := range e.Tasks {
		name := t.Task
		if name == "" {
			name = "(file)"
		}
		fmt.Fprintf(w, "%s\t%d\t%.3f\t", name, t.Questions, t.Reward)
		passes(w, t.Pass, last.Pass)
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	_, err := fmt.Fprintf(out, "\nSet %s: %d questions, %d completions of each. Only evaluations of one set compare.\n",
		last.Set, last.Questions, last.Generations)
	return err
}

// passes writes a row's values in the columns of another.
func passes(w io.Writer, has, columns []stats.Pass) {
	for _, c := range columns {
		text := "-"
		for _, p := range has {
			if p.K == c.K {
				text = fmt.Sprintf("%.3f", p.Value)
			}
		}
		fmt.Fprintf(w, "%s\t", text)
	}
}

// known formats a number that may not be one.
func known(format string, v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}
