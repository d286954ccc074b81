package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Bases that a Comparison's improvements rest on.
const (
	BasisCumulative   = "cumulative_reward"     // all runs have the same node-rounds: both bases give the same number
	BasisPerNodeRound = "reward_per_node_round" // they differ, so that sums can't be compared
	BasisEval         = "eval_reward"           // held-out evaluation
	BasisPass         = "eval_pass_1"           // its share of right completions
)

// Comparison is the document of `swarm compare -o json`. Fields are only ever added.
type Comparison struct {
	Baseline string `json:"baseline"` // experiment
	Basis    string `json:"basis"`
	Rows     []Row  `json:"rows"`

	By      string           `json:"by"`
	Measure string           `json:"measure"`
	EvalSet string           `json:"eval_set"` // the held-out questions that eval_reward is of; empty: none
	Pairs   []Pair           `json:"pairs"`    // rows against the baseline, or every pair; in the order of rows
	Tasks   []TaskComparison `json:"tasks,omitempty"`
	Notes   []string         `json:"notes"` // what a reader must know before he believes a number

	Study *Study `json:"study,omitempty"` // with CompareOptions.Study

	planned int // tests, of which some may have no p-value yet
}

// Runs are what Compare compares: a database's runs, by start, and what the options ask for of each, by run.
type Runs struct {
	Totals  []store.Totals
	Evals   map[string]store.EvalTotal
	Reaches map[string]Reach             // with CompareOptions.Target
	Tasks   map[string][]store.TaskTotal // with CompareOptions.Tasks

	ModelEvals map[string]map[string]store.EvalTotal // with CompareOptions.Study: of Evals, by model
}

// Compare groups runs by experiment or configuration and compares each with the baseline; with an empty name that is the first without
// external rollouts (J = 0), else the first. Rows keep the order of the runs. Improvements compare rewards a node-round, which for
// runs of equal nodes and rounds is the same as comparing cumulative rewards. Intervals are over seeds, never over
// nodes: nodes of a swarm train on each other's rollouts, and runs of one seed repeat each other.
// The error is store.ErrNotFound for a baseline without runs.
func Compare(runs Runs, o CompareOptions) (Comparison, error) {
	if o.Study != nil {
		return compareStudy(runs, o)
	}
	return compare(runs, o)
}

func compare(runs Runs, o CompareOptions) (Comparison, error) {
	o.By, o.Measure = cmp.Or(o.By, ByExperiment), cmp.Or(o.Measure, MeasureReward)
	groups := groupRuns(runs.Totals, o)
	c := Comparison{Basis: BasisCumulative, By: o.By, Measure: o.Measure, Rows: []Row{}, Pairs: []Pair{}, Notes: []string{}, planned: o.planned}
	if len(groups) == 0 && o.Baseline == "" {
		return c, nil
	}
	base := findBaseline(groups, o.Baseline)
	if base < 0 {
		return Comparison{}, fmt.Errorf("baseline %q: %w", o.Baseline, store.ErrNotFound)
	}
	c.Baseline, c.Basis = groups[base].name, basis(groups, o)
	c.EvalSet = evalSet(groups, base, runs.Evals)
	samples := map[string]sample{}
	for i, g := range groups {
		row := g.row(runs, c.EvalSet)
		samples[g.name] = sample{g.name, row.addValue(g, o, runs.Evals, c.EvalSet)}
		if o.Target != 0 {
			row.Target = newTargetRow(g, runs.Reaches, o)
		}
		if i == base {
			row.Verdict, row.Outcome = "baseline", "baseline"
		}
		c.Rows = append(c.Rows, row)
	}
	c.addPairs(groups, samples, o)
	c.addNotes(groups, runs, o)
	c.choose(o)
	if o.Tasks {
		c.addTasks(groups, runs.Tasks)
	}
	return c, nil
}

func basis(groups []group, o CompareOptions) string {
	switch o.Measure {
	case MeasureEval:
		return BasisEval
	case MeasurePass:
		return BasisPass
	}
	for _, g := range groups {
		for _, r := range g.runs {
			if r.NodeRounds != groups[0].runs[0].NodeRounds {
				return BasisPerNodeRound
			}
		}
	}
	return BasisCumulative
}

// evalSet is the set of held-out questions that is compared: the baseline's, else the first there is.
func evalSet(groups []group, base int, evals map[string]store.EvalTotal) string {
	for _, g := range slices.Concat(groups[base:base+1], groups) {
		for _, r := range g.runs {
			if e, ok := evals[r.Run.Run]; ok && e.Questions*e.Generations > 0 {
				return e.Set
			}
		}
	}
	return ""
}

// addPairs compares the rows with the baseline, or each with each, and gives the rows their verdicts.
func (c *Comparison) addPairs(groups []group, samples map[string]sample, o CompareOptions) {
	for i, g := range groups {
		if g.name != c.Baseline {
			c.Pairs = append(c.Pairs, newPair(samples[g.name], samples[c.Baseline]))
		}
		if !o.Pairs {
			continue
		}
		for _, other := range groups[:i] {
			if g.name != c.Baseline && other.name != c.Baseline {
				c.Pairs = append(c.Pairs, newPair(samples[g.name], samples[other.name]))
			}
		}
	}
	missing := "no rounds yet"
	if heldOut(o.Measure) {
		missing = "no held-out evaluation"
	}
	decide(c.Pairs, samples, missing, max(2, o.least), o.planned)
	for _, p := range c.Pairs {
		if p.B != c.Baseline {
			continue
		}
		i := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Experiment == p.A })
		c.Rows[i].judge(p, Mean(samples[p.B].values))
	}
}

// choose leaves out the rows that weren't asked for, and their pairs.
func (c *Comparison) choose(o CompareOptions) {
	improvement := func(r Row) float64 {
		if r.Improvement == nil {
			return math.Inf(-1)
		}
		return *r.Improvement
	}
	isBaseline := func(r Row) bool { return r.Experiment == c.Baseline }
	if o.HasMin {
		c.Rows = slices.DeleteFunc(c.Rows, func(r Row) bool { return !isBaseline(r) && !(improvement(r) >= o.Min) })
	}
	if o.Top > 0 {
		slices.SortStableFunc(c.Rows, func(a, b Row) int {
			if isBaseline(a) || isBaseline(b) {
				return cmp.Compare(order(isBaseline(a)), order(isBaseline(b)))
			}
			return cmp.Compare(improvement(b), improvement(a))
		})
		c.Rows = c.Rows[:min(len(c.Rows), o.Top+1)]
	}
	shown := map[string]bool{}
	for _, r := range c.Rows {
		shown[r.Experiment] = true
	}
	c.Pairs = slices.DeleteFunc(c.Pairs, func(p Pair) bool { return !shown[p.A] || !shown[p.B] })
}

// order puts the baseline first.
func order(isBaseline bool) int {
	if isBaseline {
		return 0
	}
	return 1
}
