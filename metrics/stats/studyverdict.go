package stats

import (
	"cmp"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// compareStudy compares a study's arms by its measure, each with each, and adds what follows for its question.
func compareStudy(runs Runs, o CompareOptions) (Comparison, error) {
	d := *o.Study
	runs, o, sorted := o.ofStudy(runs)
	decided, err := judge(runs, o, d)
	if err != nil {
		return Comparison{}, err
	}
	other := o
	other.Measure, other.Target, other.Tasks = MeasureReward, 0, false
	if !heldOut(o.Measure) {
		other.Measure = MeasurePass
	}
	beside, err := judge(runs, other, d)
	if err != nil {
		return Comparison{}, err
	}
	study := newStudy(decided, beside, sorted, newStudyModels(decided, runs))
	decided.c.Study = &study
	return decided.c, nil
}

// ofStudy are the runs and the options of the comparison of a study's arms, and its runs sorted out.
func (o CompareOptions) ofStudy(runs Runs) (Runs, CompareOptions, studyRuns) {
	d, base := *o.Study, o.Study.baseline().Experiment
	sorted := d.sortOut(runs.Totals)
	runs.Totals = sorted.counted
	o.Study, o.Baseline, o.By, o.Pairs, o.HasMin, o.Top, o.least = nil, "", ByExperiment, true, false, 0, enoughSeeds
	if o.automatic() {
		o.Measure = MeasurePass
	}
	o.planned, o.studied = len(d.Arms)*(len(d.Arms)-1)/2, d.Keys
	if slices.ContainsFunc(d.Arms, func(a StudyArm) bool { return a.Nodes != d.Arms[0].Nodes }) {
		o.studied = append(slices.Clone(o.studied), "nodes")
	}
	if slices.ContainsFunc(runs.Totals, func(r store.Totals) bool { return r.Experiment == base }) {
		o.Baseline = base
	}
	return runs, o, sorted
}

// judged is a study's comparison by one measure.
type judged struct {
	d      StudyDesign
	c      Comparison
	ranked []Row                        // that have a value, highest first
	values map[string]map[int64]float64 // by experiment and seed

	outcome string
	open    []StudyArm // that the highest isn't better than with certainty, in the study's order
}

func judge(runs Runs, o CompareOptions, d StudyDesign) (judged, error) {
	c, f, err := compare(runs, o)
	if err != nil {
		return judged{}, err
	}
	j := judged{d: d, c: c, outcome: StudyUndecided, values: map[string]map[int64]float64{}}
	for i, s := range f.spans(runs, c.Pairs) {
		j.values[f.groups[i].name] = f.groups[i].bySeed(o.measured(runs, s, c.EvalSet))
	}
	for _, r := range c.Rows {
		if r.Value != nil {
			j.ranked = append(j.ranked, r)
		}
	}
	slices.SortStableFunc(j.ranked, func(a, b Row) int { return cmp.Compare(*b.Value, *a.Value) })
	if len(j.ranked) > 0 {
		j.decide()
	}
	return j, nil
}

// decide says whether the highest is the best: only where it is better than each of the others by p-values that are corrected for all pairs, so
// that having looked for the highest first takes nothing from it.
func (j *judged) decide() {
	best := j.ranked[0].Experiment
	for _, arm := range j.d.Arms {
		if p, _ := j.pair(best, arm.Experiment); arm.Experiment != best && p.Outcome != OutcomeBetter {
			j.open = append(j.open, arm)
		}
	}
	base := j.d.baseline()
	switch {
	case len(j.d.Arms) < 2:
	case len(j.open) == 0:
		j.outcome = StudyBest
	case best != base.Experiment && !slices.Contains(j.open, base):
		j.outcome = StudyBetter
	}
}

// pair returns one experiment against another, whichever way round the comparison has it; ok is false where it hasn't.
func (j *judged) pair(a, b string) (p Pair, ok bool) {
	for _, p := range j.c.Pairs {
		switch {
		case p.A == a && p.B == b:
			return p, true
		case p.A == b && p.B == a:
			return j.turned(p), true
		}
	}
	return Pair{A: a, B: b, Outcome: OutcomeUndecided}, false
}

// turned is the pair from the other side. Words that tell of both sides stay.
func (j *judged) turned(p Pair) Pair {
	negative := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		return optional(-*v)
	}
	t := p
	t.A, t.B, t.SeedsA, t.SeedsB = p.B, p.A, p.SeedsB, p.SeedsA
	t.Difference, t.CILow, t.CIHigh = negative(p.Difference), negative(p.CIHigh), negative(p.CILow)
	t.Improvement = nil
	if i := slices.IndexFunc(j.ranked, func(r Row) bool { return r.Experiment == t.B }); i >= 0 && t.Difference != nil && *j.ranked[i].Value > 0 {
		t.Improvement = optional(*t.Difference / *j.ranked[i].Value)
	}
	if p.ProbabilityOfImprovement != nil {
		t.ProbabilityOfImprovement = optional(1 - *p.ProbabilityOfImprovement)
	}
	fewest := min(t.SeedsA, t.SeedsB)
	switch {
	case p.Outcome == OutcomeBetter:
		t.Outcome, t.Verdict = OutcomeWorse, OutcomeWorse
	case p.Outcome == OutcomeWorse:
		t.Outcome, t.Verdict = OutcomeBetter, OutcomeBetter
	case fewest > 0 && fewest < enoughSeeds:
		t.tooFew()
	}
	return t
}

// name is an experiment's arm.
func (j *judged) name(experiment string) string { return j.d.ShortName(experiment) }

// best and runnerUp are the names of the two highest arms, empty where there are none.
func (j *judged) best() string     { return j.rank(0) }
func (j *judged) runnerUp() string { return j.rank(1) }

func (j *judged) rank(i int) string {
	if i >= len(j.ranked) {
		return ""
	}
	return j.name(j.ranked[i].Experiment)
}

// gain is one experiment's over another's; ok is false where one of them has no value.
func (j *judged) gain(a, b string) (g StudyGain, ok bool) {
	p, _ := j.pair(a, b)
	return StudyGain{p.Difference, p.CILow, p.CIHigh, p.Improvement, p.PValue, p.PValueHolm}, p.Difference != nil
}

func newStudy(decided, beside judged, runs studyRuns, models []StudyModel) Study {
	s := Study{
		Name: decided.d.Name, Model: decided.d.Model, Question: decided.d.Question, Measure: decided.c.Measure, Outcome: decided.outcome,
		Best: decided.best(), RunnerUp: decided.runnerUp(), Baseline: decided.d.baseline().Name, Arms: []StudyRow{}, Pairs: []StudyPair{},
		Failed: orEmpty(runs.failed), Unfinished: orEmpty(runs.unfinished), Missing: orEmpty(runs.missing),
		Models: models,
		Paper:  newStudyPaper(decided, rewardOf(decided, beside)),
	}
	s.addArms(decided, beside)
	for _, p := range decided.c.Pairs {
		s.Pairs = append(s.Pairs, StudyPair{p, Paired(decided.values[p.A], decided.values[p.B])})
	}
	if len(decided.ranked) > 0 {
		s.StudyGain, _ = decided.gain(decided.ranked[0].Experiment, decided.d.baseline().Experiment)
	}
	if len(decided.ranked) > 1 {
		gain, _ := decided.gain(decided.ranked[0].Experiment, decided.ranked[1].Experiment)
		s.OverRunnerUp = &gain
	}
	s.MoreSeeds = decided.moreSeeds()
	if s.ofModels(decided.d) {
		s.Outcome, s.MoreSeeds = modelsOutcome(models, decided.d.modelPairs()), moreSeedsOf(models)
	}
	s.Beside = newStudyBeside(decided, beside)
	s.Lines = decided.lines(s)
	if text := decided.d.unequal(runs.counted); text != "" {
		s.Lines[0] += " " + text
	}
	s.Verdict = s.Lines[0]
	return s
}

func orEmpty(runs []StudyRun) []StudyRun {
	if runs == nil {
		return []StudyRun{}
	}
	return runs
}

// rewardOf is which of the two is by own reward.
func rewardOf(a, b judged) judged {
	if a.c.Measure == MeasureReward {
		return a
	}
	return b
}

// addArms adds a row an arm, with its runs or without.
func (s *Study) addArms(decided, beside judged) {
	for i, arm := range decided.d.Arms {
		row := StudyRow{Name: arm.Name, Experiment: arm.Experiment}
		if k := slices.IndexFunc(decided.c.Rows, func(r Row) bool { return r.Experiment == arm.Experiment }); k >= 0 {
			r := decided.c.Rows[k]
			row.Config, row.Seeds, row.Value, row.ValueLow, row.ValueHigh = r.Config, r.Seeds, r.Value, r.ValueLow, r.ValueHigh
			row.Runs, row.Cumulative, row.Beside = r.Runs, optional(r.CumulativeReward), beside.c.Rows[k].Value
		}
		if s.Seeds = min(s.Seeds, row.Seeds); i == 0 {
			s.Seeds = row.Seeds
		}
		s.Arms = append(s.Arms, row)
	}
}

// deciding is the pair on which it hangs that the highest isn't the best: that against the baseline, as long as it is open, else that against the
// next highest which is.
func (j *judged) deciding() (p Pair, ok bool) {
	if len(j.ranked) == 0 || len(j.open) == 0 {
		return Pair{}, false
	}
	best, base := j.ranked[0].Experiment, j.d.baseline()
	if slices.Contains(j.open, base) {
		p, _ := j.pair(best, base.Experiment)
		return p, true
	}
	for _, r := range j.ranked[1:] {
		if slices.ContainsFunc(j.open, func(a StudyArm) bool { return a.Experiment == r.Experiment }) {
			p, _ := j.pair(best, r.Experiment)
			return p, true
		}
	}
	p, _ = j.pair(best, j.open[0].Experiment)
	return p, true
}

// moreSeeds is how many more seeds a side at least tell the highest from the arm on which it hangs; nil: none, or nobody can say.
func (j *judged) moreSeeds() *int {
	p, ok := j.deciding()
	if ok && p.MoreSeeds == nil && p.SeedsB == 0 {
		all := enoughSeeds
		return &all
	}
	return p.MoreSeeds
}

func newStudyBeside(decided, beside judged) *StudyBeside {
	b := &StudyBeside{Measure: beside.c.Measure, Basis: beside.c.Basis, Outcome: beside.outcome, Best: beside.best(), RunnerUp: beside.runnerUp()}
	if b.Best == "" {
		return b
	}
	b.StudyGain, _ = beside.gain(beside.ranked[0].Experiment, beside.d.baseline().Experiment)
	if decided.best() != "" {
		agrees := b.Best == decided.best()
		b.Agrees = &agrees
	}
	return b
}
