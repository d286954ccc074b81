package stats

import (
	"math"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// significance is the p-value below which there is a verdict.
const significance = 1 - sample.Confidence

// Significant reports whether a single p-value, without correction, is below the level.
func Significant(p float64) bool { return p < significance }

// EnoughSeeds is the least number of seeds per side to recommend. Two seeds give an interval, but it is too wide to be
// useful.
const EnoughSeeds = 3

// Outcomes of a Pair.
const (
	OutcomeBetter    = "better"
	OutcomeWorse     = "worse"
	OutcomeUndecided = "undecided"
	OutcomeBaseline  = "baseline" // of a Row: the others are compared with it

	OutcomeNotComparable = "not comparable" // the sides differ in settings that are not studied; see Pair.Differs
)

// Pair is a comparison of experiment A with experiment B. In a comparison with the baseline, B is the baseline. Each
// sample is the value of one seed: see Comparison.Basis. Equal seeds are not treated as pairs, because nodes that train
// on each other's rollouts diverge within a round.
type Pair struct {
	A                        string   `json:"a"`
	B                        string   `json:"b"`
	SeedsA                   int      `json:"seeds_a"`
	SeedsB                   int      `json:"seeds_b"`
	Difference               *float64 `json:"difference"` // mean of A minus mean of B
	CILow                    *float64 `json:"ci_low"`     // 95 % interval of Difference
	CIHigh                   *float64 `json:"ci_high"`
	Improvement              *float64 `json:"improvement"`                // Difference / mean of B, ratio
	PValue                   *float64 `json:"p_value"`                    // Welch's t-test, two-sided
	PValueHolm               *float64 `json:"p_value_holm"`               // corrected for the comparison's other pairs; decides the verdict
	PermutationPValue        *float64 `json:"permutation_p_value"`        // two-sided
	PermutationError         *float64 `json:"permutation_error"`          // its standard error; 0: exact
	ProbabilityOfImprovement *float64 `json:"probability_of_improvement"` // probability that a run of A exceeds one of B
	Outcome                  string   `json:"outcome"`                    // better, worse, undecided, not comparable
	Verdict                  string   `json:"verdict"`                    // outcome, and why it is undecided; set by metrics/wording
	MoreSeeds                *int     `json:"more_seeds"`                 // per side, at least, to decide; null: decided or unknown

	RoundsCompared *Span               `json:"rounds_compared"` // rounds that all runs of both sides have; null: none
	Measure        string              `json:"measure"`         // measure that decides: the comparison's, or with MeasureAuto one that both sides have
	EvalRound      *int                `json:"eval_round"`      // rounds before the compared evaluations; null: none in common
	ValueA         *float64            `json:"value_a"`         // mean over seeds and the compared rounds
	ValueB         *float64            `json:"value_b"`
	Differs        []SettingDifference `json:"differs"` // settings that differ, by name

	Reason Reason `json:"-"` // basis of the outcome

	span  span
	short bool // the sides' lengths leave nothing to compare
}

// Reason explains the outcome of a Pair.
type Reason struct {
	Kind   ReasonKind
	Tests  int // with ReasonChance: tests that the p-value is corrected for
	SeedsA int // of the pair as compared; turning the pair around does not swap them
	SeedsB int
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
	ReasonConstant                 // the runs do not vary, so there is no p-value
	ReasonChance                   // the p-value is too high; MoreSeeds is nil if the difference is too small for MaxSeeds
)

// side holds the values of a group, one per seed.
type side struct {
	name   string
	values []float64
}

// matched holds the two sides of a pair.
type matched struct{ a, b side }

// newPair compares two samples. It does not set the verdict.
func newPair(a, b side) Pair {
	d := sample.Welch(a.values, b.values)
	permutation := sample.PermutationTest(a.values, b.values)
	p := Pair{
		A: a.name, B: b.name, SeedsA: len(a.values), SeedsB: len(b.values),
		Difference: optional(d.Mean), CILow: optional(d.Low), CIHigh: optional(d.High), PValue: optional(d.P),
		Improvement:       optional(Improvement(sample.Mean(a.values), sample.Mean(b.values))),
		PermutationPValue: optional(permutation.P), ProbabilityOfImprovement: optional(sample.ProbabilityOfImprovement(a.values, b.values)),
		ValueA: optional(sample.Mean(a.values)), ValueB: optional(sample.Mean(b.values)), Differs: []SettingDifference{},
	}
	if p.PermutationPValue != nil {
		p.PermutationError = optional(permutation.Error)
	}
	return p
}

// withoutStatistics returns the pair without the figures of its difference, for sides that are not comparable.
func (p Pair) withoutStatistics() Pair {
	p.Difference, p.CILow, p.CIHigh, p.Improvement, p.PValue = nil, nil, nil, nil, nil
	p.PermutationPValue, p.PermutationError, p.ProbabilityOfImprovement = nil, nil, nil
	return p
}

// decide sets the corrected p-value and the outcome of every pair. least is the number of seeds that each side needs.
// missing is the reason to report for a side without values. The correction covers at least the planned tests: tests
// without a p-value yet count with p = 1, so that the arrival of a pair alone does not change a verdict.
func decide(pairs []Pair, sides []matched, missing ReasonKind, least, planned int) {
	ps := make([]float64, len(pairs))
	tests := 0
	for i, p := range pairs {
		ps[i] = math.NaN()
		if p.PValue != nil {
			ps[i] = *p.PValue
			tests++
		}
	}
	for ; tests > 0 && tests < planned; tests++ {
		ps = append(ps, 1)
	}
	for i, corrected := range sample.Holm(ps)[:len(pairs)] {
		p := &pairs[i]
		p.PValueHolm = optional(corrected)
		p.decide(sides[i].a.values, sides[i].b.values, tests, missing, least)
	}
}

func (p *Pair) decide(a, b []float64, tests int, missing ReasonKind, least int) {
	p.Outcome = OutcomeUndecided
	p.Reason = Reason{Kind: ReasonDecided, Tests: tests, SeedsA: len(a), SeedsB: len(b)}
	missingOne := len(a) == 0 || len(b) == 0
	switch {
	case len(p.Confounders()) > 0 && (p.short || !missingOne):
		p.Outcome, p.Reason.Kind = OutcomeNotComparable, ReasonNotComparable
	case p.short:
		p.Reason.Kind = ReasonLength
	case missingOne:
		p.Reason.Kind = missing
	case min(len(a), len(b)) < least:
		p.tooFew()
	case p.PValue == nil:
		p.Reason.Kind = ReasonConstant
	case *p.PValueHolm >= significance:
		p.undecided(a, b, tests)
	case *p.Difference > 0:
		p.Outcome = OutcomeBetter
	default:
		p.Outcome = OutcomeWorse
	}
}

// tooFew sets the outcome if a side has too few seeds.
func (p *Pair) tooFew() {
	p.Reason.Kind = ReasonFewSeeds
	p.need(EnoughSeeds - min(p.SeedsA, p.SeedsB))
}

func (p *Pair) need(seeds int) { p.MoreSeeds = &seeds }

// undecided sets how many more seeds would decide the pair at a level corrected for that many tests.
func (p *Pair) undecided(a, b []float64, tests int) {
	p.Reason.Kind = ReasonChance
	if n, ok := sample.SeedsNeeded(a, b, significance/float64(tests)); ok {
		p.need(max(1, n-min(len(a), len(b))))
	}
}
