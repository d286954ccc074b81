package stats

import (
	"math"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// significance is the p-value below which a verdict is given.
const significance = 1 - sample.Confidence

// Significant tells whether a p-value, where it is the only one, decides.
func Significant(p float64) bool { return p < significance }

// EnoughSeeds is the fewest a side to ask for: two give an interval, but a hopelessly wide one.
const EnoughSeeds = 3

// Outcomes of a Pair.
const (
	OutcomeBetter    = "better"
	OutcomeWorse     = "worse"
	OutcomeUndecided = "undecided"
	OutcomeBaseline  = "baseline" // of a Row: it is what the others are compared with

	OutcomeNotComparable = "not comparable" // the sides differ in more than what is studied, see Pair.Differs
)

// Pair is one experiment against another, B, which against the baseline is the baseline. Every sample is a seed's
// value: see Comparison.Basis. Pairing of equal seeds isn't assumed: nodes that train on one another's rollouts part
// ways within a round.
type Pair struct {
	A                        string   `json:"a"`
	B                        string   `json:"b"`
	SeedsA                   int      `json:"seeds_a"`
	SeedsB                   int      `json:"seeds_b"`
	Difference               *float64 `json:"difference"` // mean of A less that of B
	CILow                    *float64 `json:"ci_low"`     // 95 % interval of Difference
	CIHigh                   *float64 `json:"ci_high"`
	Improvement              *float64 `json:"improvement"`                // Difference over the mean of B, ratio
	PValue                   *float64 `json:"p_value"`                    // Welch's t-test, two-sided
	PValueHolm               *float64 `json:"p_value_holm"`               // corrected for the comparison's other pairs; what the verdict rests on
	PermutationPValue        *float64 `json:"permutation_p_value"`        // two-sided
	PermutationError         *float64 `json:"permutation_error"`          // standard error of it; 0: exact
	ProbabilityOfImprovement *float64 `json:"probability_of_improvement"` // that a run of A has more than one of B
	Outcome                  string   `json:"outcome"`                    // better, worse, undecided, not comparable
	Verdict                  string   `json:"verdict"`                    // the same, and why it is undecided: metrics/wording sets it
	MoreSeeds                *int     `json:"more_seeds"`                 // a side, at least, to decide; null: decided, or nobody can say

	RoundsCompared *Span               `json:"rounds_compared"` // that all runs of both sides have; null: none
	Measure        string              `json:"measure"`         // that decides: the comparison's, or with MeasureAuto what both sides have
	EvalRound      *int                `json:"eval_round"`      // after which the evaluations that are compared were made; null: none in common
	ValueA         *float64            `json:"value_a"`         // mean over seeds, over the rounds compared
	ValueB         *float64            `json:"value_b"`
	Differs        []SettingDifference `json:"differs"` // settings, by name

	Reason Reason `json:"-"` // what the outcome rests on

	span  span
	short bool // the sides' lengths leave nothing to compare
}

// Reason is what the outcome of a Pair rests on.
type Reason struct {
	Kind   ReasonKind
	Tests  int // of ReasonChance: how many the p-value is corrected for
	SeedsA int // of the pair as it was compared: one that is seen from the other side keeps them
	SeedsB int
}

// ReasonKind says which of a Pair's figures decide.
type ReasonKind int

// Kinds of a Reason. The zero value is that of a pair that was not compared.
const (
	ReasonNone          ReasonKind = iota
	ReasonDecided                  // the corrected p-value is below the level
	ReasonNotComparable            // the confounders among Differs
	ReasonLength                   // the sides' lengths leave nothing to compare
	ReasonNoRounds                 // a side has no round
	ReasonNoEvaluation             // a side has no held-out evaluation
	ReasonFewSeeds                 // a side has too few for any verdict; MoreSeeds says how many it lacks
	ReasonConstant                 // the runs do not vary, so that there is no p-value
	ReasonChance                   // the p-value is too high; MoreSeeds is nil where the difference is too small for MaxSeeds
)

// side is a group's values, one a seed.
type side struct {
	name   string
	values []float64
}

// matched are the two sides of a pair.
type matched struct{ a, b side }

// newPair compares two samples; its verdict is not set.
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

// withoutStatistics is the pair without what would tell of a difference: of sides that don't compare there is none.
func (p Pair) withoutStatistics() Pair {
	p.Difference, p.CILow, p.CIHigh, p.Improvement, p.PValue = nil, nil, nil, nil, nil
	p.PermutationPValue, p.PermutationError, p.ProbabilityOfImprovement = nil, nil, nil
	return p
}

// decide gives every pair its corrected p-value and its outcome, for which each side needs the least number of seeds.
// missing says what a side without values has none of. It is corrected for as many tests as are planned, should there
// be fewer yet: those that come later count with p = 1 until then, so that what is decided doesn't turn by a pair's
// arrival alone.
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

// tooFew is the outcome where a side has too few seeds for any.
func (p *Pair) tooFew() {
	p.Reason.Kind = ReasonFewSeeds
	p.need(EnoughSeeds - min(p.SeedsA, p.SeedsB))
}

func (p *Pair) need(seeds int) { p.MoreSeeds = &seeds }

// undecided says what a verdict would take: seeds for a level that holds for so many tests.
func (p *Pair) undecided(a, b []float64, tests int) {
	p.Reason.Kind = ReasonChance
	if n, ok := sample.SeedsNeeded(a, b, significance/float64(tests)); ok {
		p.need(max(1, n-min(len(a), len(b))))
	}
}
