package stats

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// addNotes says what the numbers don't: runs left out, rows that were cut or taken apart, evaluations that don't compare.
func (c *Comparison) addNotes(f frame, runs Runs, o CompareOptions) {
	if f.base < 0 && !o.ofStudyArms() {
		c.noteBaseline(f)
	}
	if c.Basis == BasisPerNodeRound {
		c.note("The runs differ in nodes or rounds: improvements compare the reward of a node-round.")
	}
	c.noteSpans()
	c.noteMeasures(o)
	c.noteConfounders()
	if tests := c.tests(); tests > 1 {
		c.note("Verdicts rest on p-values corrected for %d comparisons (Holm); p_value and intervals are not corrected.", tests)
	}
	for i, g := range f.groups {
		c.noteStates(g)
		c.noteParts(f.groups[i:])
		c.noteWorkers(g)
		c.noteEvals(g, runs.Evals)
		if o.Target != 0 {
			c.noteWindow(g, o)
		}
	}
}

func (c *Comparison) noteBaseline(f frame) {
	if len(f.groups) < 2 {
		return
	}
	c.note("No row is the baseline: rows are ranked, the longest first, and nothing is decided. Try: swarm compare --baseline %s",
		f.groups[0].shellName())
}

// shellName is the group's name as a command takes it.
func (g group) shellName() string {
	if strings.ContainsFunc(g.name, func(r rune) bool {
		return !(r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r))) && !strings.ContainsRune("-_.#", r)
	}) {
		return "NAME"
	}
	return g.name
}

// noteSpans says that runs were cut to what the others have.
func (c *Comparison) noteSpans() {
	cut := slices.ContainsFunc(c.Pairs, func(p Pair) bool { return p.span.uneven && !p.short })
	evals := slices.ContainsFunc(c.Pairs, func(p Pair) bool { return p.span.evalUneven })
	if cut {
		c.note("Runs of different length are compared over the rounds that all runs of both sides have.")
	}
	if evals && heldOut(c.Measure) {
		c.note("Held-out evaluations are compared after the newest round after which all runs of both sides were evaluated.")
	}
}

// noteConfounders says how to compare all the same what isn't comparable.
func (c *Comparison) noteConfounders() {
	var keys []string
	for _, p := range c.Pairs {
		for _, d := range p.confounders() {
			if !slices.Contains(keys, d.subject) {
				keys = append(keys, d.subject)
			}
		}
	}
	if len(keys) > 0 {
		slices.Sort(keys)
		c.note("Not comparable are rows that differ in a setting that could make the result beside the one under study. To compare them all the same: "+
			"--despite %s", strings.Join(keys, ","))
	}
}

// noteParts tells of an experiment that is in several rows, once, at its first: list begins with a part and holds those after it.
func (c *Comparison) noteParts(list []group) {
	first := list[0]
	if first.part == "" || slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Experiment == first.experiment && c.told(r, first) }) {
		return
	}
	var texts []string
	for _, g := range list {
		if g.experiment == first.experiment && g.part != "" {
			texts = append(texts, fmt.Sprintf("%s (%d %s)", g.part, len(g.runs), units.Noun(len(g.runs), "run")))
		}
	}
	c.note("%s: its runs were made with different settings and are in %d rows: %s.", first.experiment, len(texts), strings.Join(texts, "; "))
}

// told tells whether a row stands before the group's and is a part of the same experiment.
func (c *Comparison) told(r Row, g group) bool {
	at := func(name string) int { return slices.IndexFunc(c.Rows, func(x Row) bool { return x.Name == name }) }
	return r.Part != "" && at(r.Name) < at(g.name)
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
			states(g.skipped), len(g.runs), units.Verb(len(g.runs), "be"))
	case g.runs[0].State != store.RunDone:
		c.note("%s: no run is done; %d unfinished %s counted (%s).", g.name, len(g.runs), runsAre(len(g.runs)), states(g.runs))
	}
}

func runsAre(n int) string { return units.Noun(n, "run") + " " + units.Verb(n, "be") }

func states(runs []store.Totals) string {
	var list []string
	for _, r := range runs {
		if !slices.Contains(list, r.State) {
			list = append(list, r.State)
		}
	}
	return strings.Join(list, ", ")
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
		c.note("%s: %d %s of %d %s took part in %s, for as long as they were there%s.", g.name, r.WorkerNodes, units.Noun(r.WorkerNodes, "node"),
			r.Workers, units.Noun(r.Workers, "worker"), r.Run.Run, models)
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
		c.note("%s: the held-out evaluation of %d of its %s is of other questions or sampling than the baseline's: not compared.",
			g.name, other, units.Plural(len(g.runs), "run"))
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
		c.note("%s: %d of its %s did fewer rounds than the target's window of %d and can't have reached it.", g.name, short, units.Plural(len(g.runs), "run"), o.window())
	}
}
