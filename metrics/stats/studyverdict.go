package stats

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/stats/heldout"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// compareStudy compares all pairs of a study's arms by its measure, and adds the answer to its question.
func compareStudy(runs Runs, o CompareOptions) (Comparison, error) {
	d := *o.Study
	runs, o, sorted := o.ofStudy(runs)
	rounds, err := judge(runs, o, d)
	if err != nil {
		return Comparison{}, err
	}
	decided, err := rounds.onAxis(runs, o)
	if err != nil {
		return Comparison{}, err
	}
	other := o
	other.Measure, other.Target, other.Tasks, other.Bootstrap, other.Questions = MeasureReward, 0, false, false, false
	if !HeldOut(o.Measure) {
		other.Measure = MeasurePass
	}
	beside, err := judge(runs, other, d)
	if err != nil {
		return Comparison{}, err
	}
	study := newStudy(decided, rounds, beside, sorted, newStudyModels(decided, runs))
	study.Chosen = o.Seeds
	c := study.Judgment.Comparison
	if err := c.addExplored(&study, runs, o); err != nil {
		return Comparison{}, err
	}
	c.Study = &study
	return c, nil
}

// ofStudy returns the runs and options for comparing a study's arms, and the study's runs by status.
func (o CompareOptions) ofStudy(runs Runs) (Runs, CompareOptions, studyRuns) {
	d, base := *o.Study, o.Study.BaselineArm().Experiment
	sorted := d.sortOut(runs.Totals, o.Seeds)
	runs.Totals, o.explored, o.lost = sorted.counted, sorted.explored, sorted.lost()
	o.Study, o.Baseline, o.By, o.Pairs, o.HasMin, o.Top, o.arms = nil, "", ByExperiment, true, false, 0, true
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

// onAxis returns the judgment at the common horizon of the options' axis, with its StudyPer. For PerRounds the judgment
// stays as it is. For measures without curves there is no StudyPer.
func (j Judgment) onAxis(runs Runs, o CompareOptions) (Judgment, error) {
	if !o.curves() {
		return j, nil
	}
	per, at, all, err := newStudyPer(j.Design, runs, j.Comparison.EvalSet, o)
	if err != nil {
		return j, err
	}
	per.addTests(j.Design, runs, o, all)
	if at != nil {
		o.at = at
		j, err = judge(runs, o, j.Design)
	}
	j.Per, j.at = per, at
	return j, err
}

// Judgment is the comparison of a study's arms by one measure.
type Judgment struct {
	Design     StudyDesign
	Per        *StudyPer // axis of the comparison; nil: another measure than pass@1, at equal rounds
	Comparison Comparison
	Ranked     []Row                        // rows with a value, highest first: where all of them are compared
	Values     map[string]map[int64]float64 // by experiment and seed, at the same place
	Cut        int                          // rounds after which, or over which, Ranked are compared if some run did more; 0: none did

	Outcome string
	Open    []StudyArm // arms that the highest is not proven better than, in the study's order

	at       *horizon // of Per; nil: equal rounds
	deciding *Pair    // prevents the outcome StudyBest; nil: none does
}

func judge(runs Runs, o CompareOptions, d StudyDesign) (Judgment, error) {
	c, f, err := compare(runs, o)
	if err != nil {
		return Judgment{}, err
	}
	j := Judgment{Design: d, Comparison: c, Outcome: StudyUndecided, Values: map[string]map[int64]float64{}}
	spans := f.spans(runs, c.Pairs)
	if s := newSpan(runs, f.set, f.groups...); o.at == nil && !s.tooShort(o) {
		for i := range spans { // a later value of one arm is no evidence against another
			spans[i] = s
		}
		j.Cut = s.cutFor(o.Measure)
	}
	for i, g := range f.groups {
		j.Values[g.name] = g.bySeed(o.measured(runs, spans[i], c.EvalSet))
		r := c.Rows[i]
		r.Value = Optional(sample.Mean(slices.Sorted(maps.Values(j.Values[g.name]))))
		if r.Seeds = len(j.Values[g.name]); r.Value != nil {
			j.Ranked = append(j.Ranked, r)
		}
	}
	slices.SortStableFunc(j.Ranked, func(a, b Row) int { return cmp.Compare(*b.Value, *a.Value) })
	if len(j.Ranked) > 0 {
		j.decide()
	}
	return j, nil
}

// decide sets the outcome. The highest arm is the best only if it is better than each of the others by p-values
// corrected for all pairs. The correction covers the choice of the highest arm after the fact.
func (j *Judgment) decide() {
	best := j.Ranked[0].Experiment
	for _, arm := range j.Design.Arms {
		if p, _ := j.Pair(best, arm.Experiment); arm.Experiment != best && p.Outcome != OutcomeBetter {
			j.Open = append(j.Open, arm)
		}
	}
	base := j.Design.BaselineArm()
	switch {
	case len(j.Design.Arms) < 2:
	case len(j.Open) == 0:
		j.Outcome = StudyBest
	case best != base.Experiment && !slices.Contains(j.Open, base):
		j.Outcome = StudyBetter
	}
	j.deciding = j.openPair()
}

// adoptPlanned gives the pairs and rows of planned comparisons the outcome of these, so that no pair has two.
func (j *Judgment) adoptPlanned() {
	c := &j.Comparison
	c.Pairs, c.Rows = slices.Clone(c.Pairs), slices.Clone(c.Rows)
	var at []int
	var pairs []Pair
	for _, names := range j.Design.Contrasts {
		a, b := j.experiment(names[0]), j.experiment(names[1])
		k := slices.IndexFunc(c.Pairs, func(p Pair) bool { return p.A == a && p.B == b || p.A == b && p.B == a })
		if k >= 0 {
			at, pairs = append(at, k), append(pairs, c.Pairs[k])
		}
	}
	corrected, tests := correct(pairs, len(j.Design.Contrasts))
	for i, k := range at {
		p := &c.Pairs[k]
		p.PValueHolm, p.MoreSeeds, p.planned = Optional(corrected[i]), nil, true
		p.decide(tests, p.Reason.Kind)
		for r := range c.Rows {
			if row := &c.Rows[r]; row.Name == p.A && p.B == c.Baseline {
				row.PValueHolm, row.Outcome, row.MoreSeeds = p.PValueHolm, p.Outcome, p.MoreSeeds
			}
		}
	}
	for i, x := range c.Caveats {
		if x, ok := x.(Corrected); ok {
			x.Planned = len(j.Design.Contrasts)
			c.Caveats = slices.Clone(c.Caveats)
			c.Caveats[i] = x
		}
	}
}

// Pair returns the comparison of experiment a with b, turned around if necessary; ok is false if there is none.
func (j *Judgment) Pair(a, b string) (p Pair, ok bool) {
	for _, p := range j.Comparison.Pairs {
		switch {
		case p.A == a && p.B == b:
			return p, true
		case p.A == b && p.B == a:
			return j.turned(p), true
		}
	}
	return Pair{A: a, B: b, Outcome: OutcomeUndecided}, false
}

// turned returns the pair with its sides swapped. Its Reason describes both sides and stays.
func (j *Judgment) turned(p Pair) Pair {
	negative := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		return Optional(-*v)
	}
	t := p
	t.Outcome = opposite(p.Outcome)
	t.A, t.B, t.SeedsA, t.SeedsB = p.B, p.A, p.SeedsB, p.SeedsA
	t.lostA, t.lostB = p.lostB, p.lostA
	t.Difference, t.CILow, t.CIHigh = negative(p.Difference), negative(p.CIHigh), negative(p.CILow)
	t.QuestionInterval = p.QuestionInterval.Turned()
	t.ValueA, t.ValueB, t.values, t.Improvement = p.ValueB, p.ValueA, [2][]float64{p.values[1], p.values[0]}, nil
	t.ImprovementLow, t.ImprovementHigh = heldout.TurnedImprovement(p.ImprovementLow, p.ImprovementHigh)
	if t.Difference != nil && *t.ValueB > 0 {
		t.Improvement = Optional(*t.Difference / *t.ValueB)
	}
	if p.ProbabilityOfImprovement != nil {
		t.ProbabilityOfImprovement = Optional(1 - *p.ProbabilityOfImprovement)
	}
	if p.ProbabilityLow != nil && p.ProbabilityHigh != nil {
		t.ProbabilityLow, t.ProbabilityHigh = Optional(1-*p.ProbabilityHigh), Optional(1-*p.ProbabilityLow)
	}
	return t
}

// Name returns the name of an experiment's arm.
func (j *Judgment) Name(experiment string) string { return j.Design.ShortName(experiment) }

// best and runnerUp return the names of the two highest arms, or an empty string.
func (j *Judgment) best() string     { return j.rank(0) }
func (j *Judgment) runnerUp() string { return j.rank(1) }

func (j *Judgment) rank(i int) string {
	if i >= len(j.Ranked) {
		return ""
	}
	return j.Name(j.Ranked[i].Experiment)
}

// gain returns the gain of one experiment over another; ok is false if one of them has no value.
func (j *Judgment) gain(a, b string) (g StudyGain, ok bool) {
	p, _ := j.Pair(a, b)
	return StudyGain{p.Difference, p.CILow, p.CIHigh, p.Improvement, p.PValue, p.PValueHolm, p.PermutationPValue, p.DecidedBy}, p.Difference != nil
}

// newStudy returns the document of the deciding judgment, which may compare at a horizon of an axis. rounds is the
// judgment by the same measure at equal rounds, and beside the one by the other measure. The paper's order uses these
// two.
func newStudy(decided, rounds, beside Judgment, runs studyRuns, models []StudyModel) Study {
	s := Study{
		Name: decided.Design.Name, Model: decided.Design.Model, Question: decided.Design.Question, Measure: decided.Comparison.Measure, Outcome: decided.Outcome,
		Best: decided.best(), RunnerUp: decided.runnerUp(), Baseline: decided.Design.BaselineArm().Name, Arms: []StudyRow{}, Pairs: []StudyPair{},
		Failed: orEmpty(runs.failed), Unfinished: orEmpty(runs.unfinished), Missing: orEmpty(runs.missing),
		Models: models, Per: decided.Per,
	}
	planned := rounds
	planned.adoptPlanned()
	beside.adoptPlanned()
	s.Paper = newStudyPaper(planned, rewardOf(planned, beside))
	s.Contrasts = newContrasts(decided)
	s.addArms(decided, beside)
	if len(decided.Ranked) > 0 {
		s.StudyGain, _ = decided.gain(decided.Ranked[0].Experiment, decided.Design.BaselineArm().Experiment)
	}
	if len(decided.Ranked) > 1 {
		gain, _ := decided.gain(decided.Ranked[0].Experiment, decided.Ranked[1].Experiment)
		s.OverRunnerUp = &gain
	}
	s.MoreSeeds = decided.moreSeeds()
	if s.ofModels(decided.Design) {
		s.Outcome, s.MoreSeeds = modelsOutcome(models, decided.Design.modelPairs()), moreSeedsOf(models, decided.Design.modelPairs())
	}
	if s.Drawn = drawn(decided.Comparison.Pairs...); s.Drawn == nil {
		s.Beside = newStudyBeside(rounds, beside)
	} else {
		for i := range s.Arms {
			s.Arms[i].Beside = nil
		}
	}
	decided.adoptPlanned()
	for _, p := range decided.Comparison.Pairs {
		s.Pairs = append(s.Pairs, StudyPair{p, p.paired})
	}
	s.Judgment, s.Unequal, s.Teachers = &decided, decided.Design.unequal(runs.counted), decided.Design.teachers(runs.counted)
	return s
}

func orEmpty(runs []StudyRun) []StudyRun {
	if runs == nil {
		return []StudyRun{}
	}
	return runs
}

// rewardOf returns the judgment by own reward.
func rewardOf(a, b Judgment) Judgment {
	if a.Comparison.Measure == MeasureReward {
		return a
	}
	return b
}

// addArms adds one row per arm, including arms without runs.
func (s *Study) addArms(decided, beside Judgment) {
	for i, arm := range decided.Design.Arms {
		row := StudyRow{Name: arm.Name, Experiment: arm.Experiment}
		if k := slices.IndexFunc(decided.Comparison.Rows, func(r Row) bool { return r.Experiment == arm.Experiment }); k >= 0 {
			r := decided.Comparison.Rows[k]
			row.Config, row.Seeds, row.Value, row.ValueLow, row.ValueHigh = r.Config, r.Seeds, r.Value, r.ValueLow, r.ValueHigh
			row.Runs, row.Cumulative, row.Beside = r.Runs, Optional(r.CumulativeReward), beside.Comparison.Rows[k].Value
		}
		if s.Seeds = min(s.Seeds, row.Seeds); i == 0 {
			s.Seeds = row.Seeds
		}
		s.Arms = append(s.Arms, row)
	}
}

// Deciding returns the pair that prevents the outcome StudyBest, corrected for all pairs. This is the pair with the
// baseline if that is open, else the pair with the next highest open arm.
func (j *Judgment) Deciding() (p Pair, ok bool) {
	if j.deciding == nil {
		return Pair{}, false
	}
	return *j.deciding, true
}

func (j *Judgment) openPair() *Pair {
	if len(j.Open) == 0 {
		return nil
	}
	best, base := j.Ranked[0].Experiment, j.Design.BaselineArm()
	if slices.Contains(j.Open, base) {
		p, _ := j.Pair(best, base.Experiment)
		return &p
	}
	for _, r := range j.Ranked[1:] {
		if slices.ContainsFunc(j.Open, func(a StudyArm) bool { return a.Experiment == r.Experiment }) {
			p, _ := j.Pair(best, r.Experiment)
			return &p
		}
	}
	p, _ := j.Pair(best, j.Open[0].Experiment)
	return &p
}

// moreSeeds returns the least number of additional seeds per side that would decide the Deciding pair; nil: none
// needed, or unknown.
func (j *Judgment) moreSeeds() *int {
	p, ok := j.Deciding()
	if ok && p.MoreSeeds == nil && p.SeedsB == 0 {
		all := j.LeastSeeds()
		return &all
	}
	return p.MoreSeeds
}

// LeastSeeds returns the number of seeds that an arm without seeds needs so that a test against the highest arm can
// decide. There must be a highest arm.
func (j *Judgment) LeastSeeds() int {
	return correction{planned: j.Comparison.planned}.seedsToDecide(j.Ranked[0].Seeds, 0)
}

func newStudyBeside(decided, beside Judgment) *StudyBeside {
	b := &StudyBeside{Measure: beside.Comparison.Measure, Basis: beside.Comparison.Basis, Outcome: beside.Outcome, Best: beside.best(), RunnerUp: beside.runnerUp()}
	if b.Best == "" {
		return b
	}
	b.StudyGain, _ = beside.gain(beside.Ranked[0].Experiment, beside.Design.BaselineArm().Experiment)
	if decided.best() != "" {
		agrees := b.Best == decided.best()
		b.Agrees = &agrees
	}
	return b
}

// Ranking returns the row of an experiment, or nil if it has no value.
func (j *Judgment) Ranking(experiment string) *Row {
	if i := slices.IndexFunc(j.Ranked, func(r Row) bool { return r.Experiment == experiment }); i >= 0 {
		return &j.Ranked[i]
	}
	return nil
}
