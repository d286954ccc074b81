package stats

import (
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Caveat is what a reader must know before he believes a number: one of the types below. metrics/wording puts it into
// words.
type Caveat interface{ caveat() }

// Caveats of a Comparison. Row is a row's name.
type (
	// NoBaseline says that no row is known to be the baseline, the first of which is Row.
	NoBaseline struct{ Row string }
	// PerNodeRound says that improvements compare rewards of a node-round, for the runs differ in nodes or rounds.
	PerNodeRound struct{}
	// CutRounds says that some runs are compared over fewer rounds than they have.
	CutRounds struct{}
	// CutEvaluations says that some runs are compared by an older evaluation than their newest.
	CutEvaluations struct{}
	// OtherMeasure names the pairs that MeasureAuto decides by the reward, where the comparison is by pass@1.
	OtherMeasure struct{ Pairs [][2]string }
	// Confounded names the settings for which rows are not comparable.
	Confounded struct{ Settings []string }
	// Corrected says how many comparisons the p-values behind the verdicts are corrected for.
	Corrected struct{ Tests int }
	// Skipped says how many runs of a row are not done and don't count, and in which states they are.
	Skipped struct {
		Row              string
		Skipped, Counted int
		States           []string
	}
	// NoneDone says that no run of a row is done, so that those in these states count.
	NoneDone struct {
		Row     string
		Counted int
		States  []string
	}
	// Parted says that an experiment's runs were made with different settings and are in several rows.
	Parted struct {
		Experiment string
		Parts      []Part
	}
	// WithWorkers says that other hosts took part in a run, whose nodes come and go.
	WithWorkers struct {
		Row, Run       string
		Nodes, Workers int
		Models         []string // of its nodes, where these are several
	}
	// OtherQuestions says how many runs of a row have a held-out evaluation that is not the baseline's.
	OtherQuestions struct {
		Row         string
		Other, Runs int
	}
	// BelowWindow says how many runs of a row are shorter than the window of the reward that they should reach.
	BelowWindow struct {
		Row                 string
		Short, Runs, Window int
	}
)

// Part is a part of an experiment that is in several rows.
type Part struct {
	Name string
	Runs int
}

func (NoBaseline) caveat()     {}
func (PerNodeRound) caveat()   {}
func (CutRounds) caveat()      {}
func (CutEvaluations) caveat() {}
func (OtherMeasure) caveat()   {}
func (Confounded) caveat()     {}
func (Corrected) caveat()      {}
func (Skipped) caveat()        {}
func (NoneDone) caveat()       {}
func (Parted) caveat()         {}
func (WithWorkers) caveat()    {}
func (OtherQuestions) caveat() {}
func (BelowWindow) caveat()    {}

func (c *Comparison) caveat(x Caveat) { c.Caveats = append(c.Caveats, x) }

// addCaveats says what the numbers don't: runs left out, rows that were cut or taken apart, evaluations that don't
// compare.
func (c *Comparison) addCaveats(f frame, runs Runs, o CompareOptions) {
	if f.base < 0 && !o.ofStudyArms() && len(f.groups) > 1 {
		c.caveat(NoBaseline{f.groups[0].name})
	}
	if c.Basis == BasisPerNodeRound {
		c.caveat(PerNodeRound{})
	}
	c.addCuts()
	c.addMeasures(o)
	c.addConfounders()
	if tests := c.Tests(); tests > 1 {
		c.caveat(Corrected{tests})
	}
	for i, g := range f.groups {
		c.addStates(g)
		c.addParts(f.groups[i:])
		c.addWorkers(g)
		c.addOtherQuestions(g, runs.Evals)
		if o.Target != 0 {
			c.addWindow(g, o)
		}
	}
}

// addCuts says that runs were cut to what the others have.
func (c *Comparison) addCuts() {
	if slices.ContainsFunc(c.Pairs, func(p Pair) bool { return p.span.uneven && !p.short }) {
		c.caveat(CutRounds{})
	}
	if HeldOut(c.Measure) && slices.ContainsFunc(c.Pairs, func(p Pair) bool { return p.span.evalUneven }) {
		c.caveat(CutEvaluations{})
	}
}

func (c *Comparison) addConfounders() {
	var keys []string
	for _, p := range c.Pairs {
		for _, d := range p.Confounders() {
			if !slices.Contains(keys, d.Subject) {
				keys = append(keys, d.Subject)
			}
		}
	}
	if len(keys) > 0 {
		slices.Sort(keys)
		c.caveat(Confounded{keys})
	}
}

// addParts tells of an experiment that is in several rows, once, at its first: list begins with a part and holds those
// after it.
func (c *Comparison) addParts(list []group) {
	first := list[0]
	if first.part == "" || slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Experiment == first.experiment && c.told(r, first) }) {
		return
	}
	x := Parted{Experiment: first.experiment}
	for _, g := range list {
		if g.experiment == first.experiment && g.part != "" {
			x.Parts = append(x.Parts, Part{g.part, len(g.runs)})
		}
	}
	c.caveat(x)
}

// told tells whether a row stands before the group's and is a part of the same experiment.
func (c *Comparison) told(r Row, g group) bool {
	at := func(name string) int { return slices.IndexFunc(c.Rows, func(x Row) bool { return x.Name == name }) }
	return r.Part != "" && at(r.Name) < at(g.name)
}

// Tests are how many the p-values are corrected for; none where there is no p-value.
func (c *Comparison) Tests() int {
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

func (c *Comparison) addStates(g group) {
	switch {
	case len(g.skipped) > 0:
		c.caveat(Skipped{g.name, len(g.skipped), len(g.runs), states(g.skipped)})
	case g.runs[0].State != store.RunDone:
		c.caveat(NoneDone{g.name, len(g.runs), states(g.runs)})
	}
}

func states(runs []store.Totals) (list []string) {
	for _, r := range runs {
		if !slices.Contains(list, r.State) {
			list = append(list, r.State)
		}
	}
	return list
}

// addWorkers tells of runs in which other hosts took part: their nodes come and go, and may have other models.
func (c *Comparison) addWorkers(g group) {
	for _, r := range g.runs {
		if r.Workers == 0 {
			continue
		}
		x := WithWorkers{Row: g.name, Run: r.Run.Run, Nodes: r.WorkerNodes, Workers: r.Workers}
		if strings.Contains(r.Models, ",") {
			x.Models = strings.Split(r.Models, ",")
		}
		c.caveat(x)
	}
}

func (c *Comparison) addOtherQuestions(g group, evals map[string]store.EvalTotal) {
	other := 0
	for _, r := range g.runs {
		if e, ok := evals[r.Run.Run]; ok && e.Set != c.EvalSet {
			other++
		}
	}
	if other > 0 {
		c.caveat(OtherQuestions{g.name, other, len(g.runs)})
	}
}

func (c *Comparison) addWindow(g group, o CompareOptions) {
	short := 0
	for _, r := range g.runs {
		if r.RoundsDone < o.window() {
			short++
		}
	}
	if short > 0 {
		c.caveat(BelowWindow{g.name, short, len(g.runs), o.window()})
	}
}
