package stats

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Bases of a Comparison's improvements.
const (
	BasisCumulative   = "cumulative_reward"     // all runs have the same node-rounds, so sums and means give the same improvement
	BasisPerNodeRound = "reward_per_node_round" // runs differ in node-rounds, so sums are not comparable
	BasisEval         = "eval_reward"           // mean reward of a held-out evaluation
	BasisPass         = basisPass + "1"         // share of right completions of a held-out evaluation
)

// These precede the k of a basis: pass@k and swarm-pass@k of a held-out evaluation.
const (
	basisPass  = "eval_pass_"
	basisSwarm = "eval_swarm_pass_"
)

// Comparison is the document of `swarm compare -o json`. Fields are only ever added.
type Comparison struct {
	Baseline string `json:"baseline"` // a row's name; empty: the baseline is unknown, and rows are not compared
	Basis    string `json:"basis"`
	Rows     []Row  `json:"rows"`

	By      string           `json:"by"`
	Measure string           `json:"measure"`
	EvalSet string           `json:"eval_set"` // held-out questions that eval_reward is computed on; empty: none
	Pairs   []Pair           `json:"pairs"`    // each row against the baseline, or every pair; in the order of rows
	Tasks   []TaskComparison `json:"tasks,omitempty"`
	Drawn   []DrawnPass      `json:"drawn_tasks,omitempty"` // by Rows; only if nodes draw different tasks
	Notes   []string         `json:"notes"`                 // Caveats as text, set by metrics/wording

	Study *Study `json:"study,omitempty"` // with CompareOptions.Study

	Caveats []Caveat `json:"-"` // restrictions that readers must know

	planned int // planned tests; some may have no p-value yet
}

// Runs is the input of Compare: a database's runs by start time, and per run the data that the options require.
type Runs struct {
	Totals  []store.Totals
	Evals   map[string]store.EvalTotal
	Reaches map[string]Reach             // with CompareOptions.Target
	Tasks   map[string][]store.TaskTotal // with CompareOptions.Tasks

	Sums       map[string]map[int]store.RewardSum   // by run and number of first rounds; Needs.Sums lists the required ones
	EvalRounds map[string][]store.EvalTotal         // all evaluations of the runs in Needs.Evals
	TaskCuts   map[string]map[int][]store.TaskTotal // with CompareOptions.Tasks: for the rounds in Needs.Sums

	ModelEvals map[string]map[string]store.EvalTotal // with CompareOptions.Study: Evals by model
	HeldOut    map[string]HeldOutSeries              // with CompareOptions.Study: by run, for the runs in Needs.HeldOut

	Questions map[string]map[int][]store.QuestionTotal // by run and round: of the evaluations that QuestionsNeeded lists
	Answered  map[string]map[int]AnswerCounts          // of the same evaluations, with CompareOptions.Tasks
}

// Compare groups runs by experiment or configuration and compares each group with the baseline. An empty name selects
// the group of the preset 8loc0ext. If the baseline is unknown, rows are ranked and nothing is decided. Otherwise rows
// keep the order of the runs.
//
// Two rows are compared over the rounds that all of their runs have, and only if no other setting than the studied ones
// could cause the result. Improvements compare rewards per node-round; for runs with equal nodes this equals a
// comparison of cumulative rewards. Intervals are over seeds, never over nodes: nodes of a swarm train on each other's
// rollouts, and runs of one seed repeat each other.
//
// metrics/wording sets verdicts, notes and a study's lines. The error is store.ErrNotFound for a baseline without runs.
func Compare(runs Runs, o CompareOptions) (Comparison, error) {
	if o.Study != nil {
		return compareStudy(runs, o)
	}
	c, _, err := compare(runs, o)
	return c, err
}

func compare(runs Runs, o CompareOptions) (Comparison, frame, error) {
	o.By, o.Measure = cmp.Or(o.By, ByExperiment), cmp.Or(o.Measure, MeasureAuto)
	if o.Bootstrap {
		o.resamples = new(sample.Bootstrap)
	}
	c := Comparison{Basis: BasisCumulative, By: o.By, Measure: o.Measure, Rows: []Row{}, Pairs: []Pair{}, Notes: []string{}, planned: o.planned}
	f, err := newFrame(runs, o)
	if err != nil || len(f.groups) == 0 {
		return c, f, err
	}
	c.EvalSet = f.set
	if f.base >= 0 {
		c.Baseline = f.groups[f.base].name
	}
	c.addPairs(f, runs, o)
	spans := f.spans(runs, c.Pairs)
	c.Measure = c.measure(f, runs, o)
	measures := f.measures(c)
	for i, g := range f.groups {
		row := g.row(runs, spans[i], c.EvalSet)
		row.addValue(g, CompareOptions{Measure: measures[i], at: o.at, resamples: o.resamples}, runs, spans[i], c.EvalSet)
		if o.Target != 0 {
			row.Target = newTargetRow(g, runs.Reaches, o)
		}
		if i == f.base {
			row.Outcome = OutcomeBaseline
		}
		c.Rows = append(c.Rows, row)
	}
	for i, p := range c.Pairs {
		if f.pairs[i].b == f.base {
			c.Rows[f.pairs[i].a].judge(p)
		}
	}
	c.Basis = c.basis(f, runs)
	c.addCaveats(f, runs, o)
	if f.base < 0 && !o.ofStudyArms() {
		c.rank()
	}
	c.choose(o)
	if o.Tasks {
		c.addTasks(f, spans, runs, o)
	}
	return c, f, nil
}

// basis returns what improvements compare: sums, if the runs of each pair have equally many node-rounds in the compared
// span.
func (c *Comparison) basis(f frame, runs Runs) string {
	if c.Measure == MeasureEval {
		return BasisEval
	}
	if k := PassOf(c.Measure); k > 0 {
		if OfSwarm(c.Measure) {
			return fmt.Sprint(basisSwarm, k)
		}
		return fmt.Sprint(basisPass, k)
	}
	equal := func(s span, groups ...group) bool {
		first := -1
		for _, g := range groups {
			for _, r := range g.runs {
				sum, _ := runs.sum(r, s.rounds)
				if first >= 0 && sum.NodeRounds != first {
					return false
				}
				first = sum.NodeRounds
			}
		}
		return true
	}
	for i, p := range f.pairs {
		if !equal(c.Pairs[i].span, f.groups[p.a], f.groups[p.b]) {
			return BasisPerNodeRound
		}
	}
	if len(f.pairs) == 0 && !equal(newSpan(runs, f.set, f.groups...), f.groups...) {
		return BasisPerNodeRound
	}
	return BasisCumulative
}

// addPairs compares the rows with the baseline, or all rows with each other.
func (c *Comparison) addPairs(f frame, runs Runs, o CompareOptions) {
	crossing := crossing{runs: runs, set: f.set, options: o}
	for _, p := range f.pairs {
		a, b := f.groups[p.a], f.groups[p.b]
		s := newSpan(runs, f.set, a, b)
		o := o
		if o.automatic() {
			o.Measure = automatic(runs, s, f.set, a, b)
		}
		var ofA, ofB map[int64]float64
		if !s.tooShort(o) {
			ofA, ofB = a.bySeed(o.measured(runs, s, f.set)), b.bySeed(o.measured(runs, s, f.set))
		}
		x, y := slices.Sorted(maps.Values(ofA)), slices.Sorted(maps.Values(ofB))
		pair := newPair(side{a.name, x}, side{b.name, y})
		pair.paired = sample.Paired(ofA, ofB)
		pair.lostA, pair.lostB = a.lost(o), b.lost(o)
		pair.Measure = o.Measure
		if o.at != nil {
			s = span{evalRound: noEval} // a horizon is no span of rounds
		}
		if pair.Differs = o.differences(a, b); len(pair.Confounders()) > 0 {
			pair = pair.withoutStatistics()
		} else if PassOf(o.Measure) > 0 {
			pair.QuestionInterval = crossing.interval(a, b, s)
		}
		pair.span, pair.short, pair.RoundsCompared, pair.EvalRound = s, s.tooShort(o), s.document(), s.evalDocument()
		c.Pairs = append(c.Pairs, pair)
	}
	missing := ReasonNoRounds
	if HeldOut(o.Measure) {
		missing = ReasonNoEvaluation
	}
	decide(c.Pairs, missing, o.planned)
}

// spans returns the span that each row shows. A row that is compared with the baseline shows the span of that pair. The
// baseline shows the longest of these. Without a baseline each row shows its own span.
func (f frame) spans(runs Runs, pairs []Pair) []span {
	spans := make([]span, len(f.groups))
	for i, g := range f.groups {
		spans[i] = newSpan(runs, f.set, g)
	}
	widest := span{evalRound: noEval}
	for i, p := range f.pairs {
		if p.b != f.base || pairs[i].span.rounds == 0 {
			continue
		}
		s := pairs[i].span
		if s.uneven && s.rounds < firstTaught {
			s.rounds = spans[p.a].rounds // nothing is compared: the row shows all of its rounds
		} else if s.rounds > widest.rounds {
			widest.rounds = s.rounds
		}
		widest.evalRound = max(widest.evalRound, s.evalRound)
		spans[p.a].rounds, spans[p.a].evalRound = s.rounds, s.evalRound
	}
	if f.base >= 0 && widest.rounds > 0 {
		spans[f.base].rounds = widest.rounds
	}
	if f.base >= 0 && widest.evalRound != noEval {
		spans[f.base].evalRound = widest.evalRound
	}
	return spans
}

// rank orders rows without a baseline: the longest first, then the highest.
func (c *Comparison) rank() {
	rounds := func(r Row) int {
		if r.RoundsCompared == nil {
			return 0
		}
		return r.RoundsCompared.To
	}
	value := func(r Row) float64 {
		if r.Value == nil {
			return math.Inf(-1)
		}
		return *r.Value
	}
	slices.SortStableFunc(c.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(rounds(b), rounds(a)), cmp.Compare(value(b), value(a)))
	})
}

// choose removes the rows that the options exclude, and their pairs.
func (c *Comparison) choose(o CompareOptions) {
	improvement := func(r Row) float64 {
		if r.Improvement == nil {
			return math.Inf(-1)
		}
		return *r.Improvement
	}
	isBaseline := func(r Row) bool { return c.Baseline != "" && r.Name == c.Baseline }
	if o.HasMin && c.Baseline != "" {
		c.Rows = slices.DeleteFunc(c.Rows, func(r Row) bool { return !isBaseline(r) && !(improvement(r) >= o.Min) })
	}
	if o.Top > 0 {
		slices.SortStableFunc(c.Rows, func(a, b Row) int {
			if isBaseline(a) || isBaseline(b) {
				return cmp.Compare(order(isBaseline(a)), order(isBaseline(b)))
			}
			return cmp.Compare(improvement(b), improvement(a))
		})
		keep := o.Top + 1
		if c.Baseline == "" {
			keep = o.Top
		}
		c.Rows = c.Rows[:min(len(c.Rows), keep)]
	}
	shown := map[string]bool{}
	for _, r := range c.Rows {
		shown[r.Name] = true
	}
	c.Pairs = slices.DeleteFunc(c.Pairs, func(p Pair) bool { return !shown[p.A] || !shown[p.B] })
}

// order sorts the baseline first.
func order(isBaseline bool) int {
	if isBaseline {
		return 0
	}
	return 1
}
