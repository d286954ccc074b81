package stats

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// addNotes says what the numbers don't: runs left out, runs that differ in what they should share, evaluations that don't compare.
func (c *Comparison) addNotes(groups []group, runs Runs, o CompareOptions) {
	if c.Basis == BasisPerNodeRound {
		c.note("The runs differ in nodes or rounds: improvements compare the reward of a node-round.")
	}
	if tests := c.tests(); tests > 1 {
		c.note("Verdicts rest on p-values corrected for %d comparisons (Holm); p_value and intervals are not corrected.", tests)
	}
	for _, g := range groups {
		c.noteStates(g)
		c.noteMixed(g, o)
		c.noteWorkers(g)
		c.noteEvals(g, runs.Evals)
		if o.Target != 0 {
			c.noteWindow(g, o)
		}
	}
	if heldOut(o.Measure) {
		c.noteEvalRounds()
	}
}

func (c *Comparison) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// tests are how many the p-values are corrected for; none where there is no p-value.
func (c *Comparison) tests() int {
	n := 0
	for _, p := range c.Pairs {
		if p.PValue != nil {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return max(n, c.planned)
}

func (c *Comparison) noteStates(g group) {
	switch {
	case len(g.skipped) > 0:
		c.note("%s: %d %s not done (%s) and not counted beside the %d that %s.", g.name, len(g.skipped), runsAre(len(g.skipped)),
			states(g.skipped), len(g.runs), isAre(len(g.runs)))
	case g.runs[0].State != store.RunDone:
		c.note("%s: no run is done; %d unfinished %s counted (%s).", g.name, len(g.runs), runsAre(len(g.runs)), states(g.runs))
	}
}

func runsAre(n int) string { return plural(n, "run") + " " + isAre(n) }

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func states(runs []store.Totals) string {
	var list []string
	for _, r := range runs {
		if !slices.Contains(list, r.State) {
			list = append(list, r.State)
		}
	}
	return strings.Join(list, ", ")
}

// noteMixed warns of an experiment whose runs differ in configuration.
func (c *Comparison) noteMixed(g group, o CompareOptions) {
	if o.By != ByExperiment {
		return
	}
	keys := map[string]bool{}
	for _, r := range g.runs {
		keys[o.key(r)] = true
	}
	if len(keys) > 1 {
		c.note("%s: its runs are of %d configurations; grouping by config keeps them apart.", g.name, len(keys))
	}
}

// noteWorkers tells of runs in which other hosts took part: their nodes come and go, and may have other models.
func (c *Comparison) noteWorkers(g group) {
	for _, r := range g.runs {
		if r.Workers == 0 {
			continue
		}
		models := ""
		if strings.Contains(r.Models, ",") {
			models = fmt.Sprintf("; its nodes trained different models (%s)", strings.ReplaceAll(r.Models, ",", ", "))
		}
		c.note("%s: %d %s of %d %s took part in %s, for as long as they were there%s.", g.name, r.WorkerNodes, plural(r.WorkerNodes, "node"),
			r.Workers, plural(r.Workers, "worker"), r.Run.Run, models)
	}
}

func (c *Comparison) noteEvals(g group, evals map[string]store.EvalTotal) {
	other := 0
	for _, r := range g.runs {
		if e, ok := evals[r.Run.Run]; ok && e.Set != c.EvalSet {
			other++
		}
	}
	if other > 0 {
		c.note("%s: the held-out evaluation of %d of its %d runs is of other questions or sampling than the baseline's: not compared.",
			g.name, other, len(g.runs))
	}
}

func (c *Comparison) noteWindow(g group, o CompareOptions) {
	short := 0
	for _, r := range g.runs {
		if r.RoundsDone < o.window() {
			short++
		}
	}
	if short > 0 {
		c.note("%s: %d of its %d runs did fewer rounds than the target's window of %d and can't have reached it.", g.name, short, len(g.runs), o.window())
	}
}

func (c *Comparison) noteEvalRounds() {
	var rounds []int
	for _, r := range c.Rows {
		if r.EvalRound != nil && !slices.Contains(rounds, *r.EvalRound) {
			rounds = append(rounds, *r.EvalRound)
		}
	}
	if len(rounds) > 1 {
		slices.Sort(rounds)
		c.note("The evaluations are of weights after different numbers of rounds (%d to %d).", rounds[0], rounds[len(rounds)-1])
	}
}
