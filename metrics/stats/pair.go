package stats

import "github.com/sapo-swarm/swarm/metrics/stats/sample"

// significance is the p-value below which there is a verdict.
const significance = 1 - sample.Confidence

// EnoughSeeds is the least number of seeds per side for a useful interval: that of two is too wide. They cannot decide.
const EnoughSeeds = sample.LeastSeeds

// Outcomes of a Pair.
const (
	OutcomeBetter    = "better"
	OutcomeWorse     = "worse"
	OutcomeUndecided = "undecided"
	OutcomeBaseline  = "baseline" // of a Row: the others are compared with it

	OutcomeNotComparable = "not comparable" // the sides differ in settings that are not studied; see Pair.Differs
)

// opposite returns the outcome of a pair with its sides swapped.
func opposite(outcome string) string {
	switch outcome {
	case OutcomeBetter:
		return OutcomeWorse
	case OutcomeWorse:
		return OutcomeBetter
	}
	return outcome
}

// Pair is a comparison of experiment A with experiment B. In a comparison with the baseline, B is the baseline. Each
// sample is the value of one seed: see Comparison.Basis. Equal seeds are not treated as pairs, because nodes that train
// on each other's rollouts diverge within a few rounds.
type Pair struct {
	A                        string   `json:"a"`
	B                        string   `json:"b"`
	SeedsA                   int      `json:"seeds_a"`
	SeedsB                   int      `json:"seeds_b"`
	Difference               *float64 `json:"difference"` // mean of A minus mean of B
	CILow                    *float64 `json:"ci_low"`     // 95 % interval of Difference
	CIHigh                   *float64 `json:"ci_high"`
	Improvement              *float64 `json:"improvement"`        // Difference / mean of B, ratio
	ImprovementLow           *float64 `json:"improvement_ci_low"` // its 95 % interval over seeds, by Fieller; null: unbounded or none
	ImprovementHigh          *float64 `json:"improvement_ci_high"`
	PValue                   *float64 `json:"p_value"`                    // Welch's t-test, two-sided
	PValueHolm               *float64 `json:"p_value_holm"`               // the larger of p_value and permutation_p_value, corrected for the comparison's other pairs; decides the verdict
	PermutationPValue        *float64 `json:"permutation_p_value"`        // two-sided
	PermutationError         *float64 `json:"permutation_error"`          // its standard error; 0: exact
	DecidedBy                string   `json:"decided_by"`                 // permutation (exact) or permutation_sampled, together with p_value; empty: no test
	ProbabilityOfImprovement *float64 `json:"probability_of_improvement"` // probability that a run of A exceeds one of B
	ProbabilityLow           *float64 `json:"probability_ci_low"`         // its 95 % interval (Newcombe)
	ProbabilityHigh          *float64 `json:"probability_ci_high"`
	QuestionInterval
	Outcome   string `json:"outcome"`    // better, worse, undecided, not comparable
	Verdict   string `json:"verdict"`    // outcome, and why it is undecided; set by metrics/wording
	MoreSeeds *int   `json:"more_seeds"` // per side, at least, to decide; null: decided or unknown

	RoundsCompared *Span               `json:"rounds_compared"` // rounds that all runs of both sides have; null: none
	Measure        string              `json:"measure"`         // measure that decides: the comparison's, or with MeasureAuto one that both sides have
	EvalRound      *int                `json:"eval_round"`      // rounds before the compared evaluations; null: none in common
	ValueA         *float64            `json:"value_a"`         // mean over seeds and the compared rounds
	ValueB         *float64            `json:"value_b"`
	Differs        []SettingDifference `json:"differs"` // settings that differ, by name

	Reason Reason `json:"-"` // basis of the outcome

	span   span
	short  bool // the sides' lengths leave nothing to compare
	values [2][]float64
	paired *sample.PairedDifference

	planned      bool // a study's planned comparison, corrected for these alone
	lostA, lostB int  // seeds that the alarm stopped: they are in no mean
}

// Planned reports whether a study planned the comparison. It is then corrected for the planned ones alone.
func (p Pair) Planned() bool { return p.planned }

// selected reports whether the higher side's mean leaves out runs that the alarm stopped. It is then too high.
func (p Pair) selected() bool {
	return p.Difference != nil && (*p.Difference > 0 && p.lostA > 0 || *p.Difference < 0 && p.lostB > 0)
}

// Reason explains the outcome of a Pair.
type Reason struct {
	Kind   ReasonKind
	Tests  int // with ReasonChance and ReasonSeedsCannot: tests that the p-value is corrected for
	SeedsA int // of the pair as compared; turning the pair around does not swap them
	SeedsB int

	Least     float64 // with ReasonSeedsCannot: the lowest p-value that the permutation test can give for these seeds
	LeastHolm float64 // the same, corrected

	Lost int // with ReasonSelected: seeds of the higher side that the alarm stopped
}

// ReasonKind selects the figure of a Pair that decides.
type ReasonKind int

// Kinds of a Reason. The zero value belongs to a pair that was not compared.
const (
	ReasonNone          ReasonKind = iota
	ReasonDecided                  // the corrected p-value is below the level
	ReasonNotComparable            // Differs contains confounders
	ReasonLength                   // the sides' lengths leave nothing to compare
	ReasonNoRounds                 // a side has no rounds
	ReasonNoEvaluation             // a side has no held-out evaluation
	ReasonFewSeeds                 // a side has too few seeds for a verdict; MoreSeeds has the missing number
	ReasonConstant                 // the runs of neither side vary, and the p-value is too high
	ReasonChance                   // the p-value is too high; MoreSeeds is nil if the difference is too small for MaxSeeds
	ReasonSeedsCannot              // so few seeds cannot decide, however large the difference; see Reason.Least
	ReasonSelected                 // the alarm stopped runs of the higher side: Reason.Lost
)

// side holds the values of a group, one per seed.
type side struct {
	name   string
	values []float64
}

// newPair compares two samples. It does not set the verdict.
func newPair(a, b side) Pair {
	d := sample.Welch(a.values, b.values)
	permutation := sample.PermutationTest(a.values, b.values)
	p := Pair{
		A: a.name, B: b.name, SeedsA: len(a.values), SeedsB: len(b.values),
		Difference: Optional(d.Mean), CILow: Optional(d.Low), CIHigh: Optional(d.High), PValue: Optional(d.P),
		Improvement:       Optional(Improvement(sample.Mean(a.values), sample.Mean(b.values))),
		PermutationPValue: Optional(permutation.P), ProbabilityOfImprovement: Optional(sample.ProbabilityOfImprovement(a.values, b.values)),
		ValueA: Optional(sample.Mean(a.values)), ValueB: Optional(sample.Mean(b.values)), Differs: []SettingDifference{},
		values: [2][]float64{a.values, b.values},
	}
	low, high := sample.ImprovementInterval(a.values, b.values)
	p.ImprovementLow, p.ImprovementHigh = Optional(low), Optional(high)
	low, high = sample.ProbabilityInterval(a.values, b.values)
	p.ProbabilityLow, p.ProbabilityHigh = Optional(low), Optional(high)
	if p.PermutationPValue != nil {
		p.PermutationError = Optional(permutation.Error)
	}
	p.DecidedBy = decidedBy(permutation)
	return p
}

// withoutStatistics returns the pair without the figures of its difference, for sides that are not comparable.
func (p Pair) withoutStatistics() Pair {
	p.Difference, p.CILow, p.CIHigh, p.Improvement, p.PValue = nil, nil, nil, nil, nil
	p.ImprovementLow, p.ImprovementHigh, p.ProbabilityLow, p.ProbabilityHigh = nil, nil, nil, nil
	p.PermutationPValue, p.PermutationError, p.ProbabilityOfImprovement, p.DecidedBy = nil, nil, nil, ""
	return p
}

// decide sets the corrected p-value and the outcome of every pair. missing is the reason to report for a side without
// values.
func decide(pairs []Pair, missing ReasonKind, planned int) {
	corrected, c := correct(pairs, planned)
	for i := range pairs {
		pairs[i].PValueHolm = Optional(corrected[i])
		pairs[i].decide(c, missing)
	}
}

func (p *Pair) decide(c correction, missing ReasonKind) {
	a, b := p.values[0], p.values[1]
	p.Outcome = OutcomeUndecided
	p.Reason = Reason{Kind: ReasonDecided, Tests: c.tests, SeedsA: len(a), SeedsB: len(b)}
	missingOne := len(a) == 0 || len(b) == 0
	switch {
	case len(p.Confounders()) > 0 && (p.short || !missingOne):
		p.Outcome, p.Reason.Kind = OutcomeNotComparable, ReasonNotComparable
	case p.short:
		p.Reason.Kind = ReasonLength
	case missingOne:
		p.Reason.Kind = missing
	case min(len(a), len(b)) < EnoughSeeds:
		p.Reason.Kind = ReasonFewSeeds
		p.need(c.seedsToDecide(len(a), len(b)) - min(len(a), len(b)))
	case p.outcome() != OutcomeUndecided:
		p.Outcome = p.outcome()
	case p.selected() && p.significant():
		p.Reason.Kind, p.Reason.Lost = ReasonSelected, p.lostA
		if *p.Difference < 0 {
			p.Reason.Lost = p.lostB
		}
	case p.PValue == nil:
		p.Reason.Kind = ReasonConstant
	default:
		p.undecided(a, b, c)
	}
}

func (p *Pair) need(seeds int) { p.MoreSeeds = &seeds }

// undecided sets how many more seeds would decide the pair: as many as Welch's test needs at the corrected level, and
// no fewer than the permutation test needs to decide at all.
func (p *Pair) undecided(a, b []float64, c correction) {
	p.Reason.Kind = ReasonChance
	n, ok := sample.SeedsNeeded(a, b, significance/float64(c.tests))
	if !ok {
		return
	}
	p.need(max(1, max(n, c.seedsToDecide(len(a), len(b)))-min(len(a), len(b))))
	least := sample.LeastPermutation(len(a), len(b))
	holm := min(1, least*float64(c.tests-c.decided)) // Holm's method counts the undecided tests
	if !sample.Significant(holm) {
		p.Reason.Kind, p.Reason.Least, p.Reason.LeastHolm = ReasonSeedsCannot, least, holm
	}
}
