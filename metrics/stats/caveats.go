package stats

import (
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Caveat is a restriction that readers must know to interpret the numbers: one of the types below. metrics/wording
// turns it into a sentence.
type Caveat interface{ caveat() }

// Caveats of a Comparison. Row is the name of a row.
type (
	// NoBaseline reports that no baseline is known. Row is the first row.
	NoBaseline struct{ Row string }
	// PerNodeRound reports that improvements compare rewards per node-round, because the runs differ in nodes or
	// rounds.
	PerNodeRound struct{}
	// CutRounds reports that some runs are compared over fewer rounds than they have.
	CutRounds struct{}
	// CutEvaluations reports that some runs are compared by an evaluation that is not their newest.
	CutEvaluations struct{}
	// OtherMeasure lists the pairs that MeasureAuto decides by reward although the comparison uses pass@1.
	OtherMeasure struct{ Pairs [][2]string }
	// Confounded lists the settings that make rows not comparable.
	Confounded struct{ Settings []string }
	// Corrected reports for how many comparisons the p-values of the verdicts are corrected: those of a study's planned
	// comparisons for Planned.
	Corrected struct{ Tests, Planned int }
	// Skipped reports how many runs of a row are unfinished and therefore not counted, and their states.
	Skipped struct {
		Row              string
		Skipped, Counted int
		States           []string
	}
	// NoneDone reports that a row has no finished run, so that runs in these states count.
	NoneDone struct {
		Row     string
		Counted int
		States  []string
	}
	// Parted reports that the runs of an experiment used different settings and are split into several rows.
	Parted struct {
		Experiment string
		Parts      []Part
	}
	// WithWorkers reports that other hosts took part in a run. Their nodes come and go.
	WithWorkers struct {
		Row, Run       string
		Nodes, Workers int
		Models         []string // models of its nodes, if there are several
	}
	// OtherQuestions reports how many runs of a row have a held-out evaluation with other questions than the baseline.
	OtherQuestions struct {
		Row         string
		Other, Runs int
	}
	// AtHorizon reports the place on an axis at which a study's runs are compared.
	AtHorizon struct {
		Axis     string
		Currency string
		Place    float64
		Explored bool // rows have a value of explored seeds, which is at that place, too
	}
	// ChosenSeeds reports that only these seeds are compared.
	ChosenSeeds struct{ Seeds []int64 }
	// BelowWindow reports how many runs of a row are shorter than the window of the target reward.
	BelowWindow struct {
		Row                 string
		Short, Runs, Window int
	}
)

// Part is one of several rows of an experiment.
type Part struct {
	Name string
	Runs int
}

func (NoBaseline) caveat()     {}
func (ChosenSeeds) caveat()    {}
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
func (AtHorizon) caveat()      {}
func (BelowWindow) caveat()    {}

func (c *Comparison) caveat(x Caveat) { c.Caveats = append(c.Caveats, x) }

// addCaveats adds what the numbers do not show: runs left out, rows that were cut or split, evaluations that are not
// comparable.
func (c *Comparison) addCaveats(f frame, runs Runs, o CompareOptions) {
	if f.base < 0 && !o.ofStudyArms() && len(f.groups) > 1 {
		c.caveat(NoBaseline{f.groups[0].name})
	}
	if c.Basis == BasisPerNodeRound {
		c.caveat(PerNodeRound{})
	}
	if len(o.Seeds) > 0 && !o.ofStudyArms() {
		c.caveat(ChosenSeeds{o.Seeds})
	}
	c.addCuts()
	if o.at != nil && units.Finite(o.at.place) {
		c.caveat(AtHorizon{o.at.axis.Name, o.at.currency, o.at.place, len(o.explored) > 0})
	}
	c.addMeasures(o)
	c.addConfounders()
	if tests := c.Tests(); tests > 1 {
		c.caveat(Corrected{Tests: tests})
	}
	for i, g := range f.groups {
		c.addStates(g)
		c.addParts(f.groups[i:])
		c.addWorkers(g)
		c.addOtherQuestions(g, runs.Evals)
		if o.Target != 0 && !(o.ofStudyArms() && HeldOut(o.Measure)) { // a held-out target has no window
			c.addWindow(g, o)
		}
	}
}

// addCuts reports runs that were cut to the length of the others.
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

// addParts reports a split experiment once, at its first row. list begins with a part and holds all groups after it.
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

// told reports whether a row precedes the group's row and is a part of the same experiment.
func (c *Comparison) told(r Row, g group) bool {
	at := func(name string) int { return slices.IndexFunc(c.Rows, func(x Row) bool { return x.Name == name }) }
	return r.Part != "" && at(r.Name) < at(g.name)
}

// Tests returns the number of tests for which the p-values are corrected; 0 if there are no p-values.
func (c *Comparison) Tests() int {
	n := 0
	for _, p := range c.Pairs {
		if p.deciding() != nil { // as correct counts
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

// states returns the states of runs, each once. For a run that its alarm stopped it uses store.AlarmStop.
func states(runs []store.Totals) (list []string) {
	for _, r := range runs {
		state := r.State
		if r.StoppedByAlarm() {
			state = store.AlarmStop
		}
		if !slices.Contains(list, state) {
			list = append(list, state)
		}
	}
	return list
}

// addWorkers reports runs with nodes of other hosts: these come and go, and may use other models.
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
