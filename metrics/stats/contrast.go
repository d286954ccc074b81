package stats

import (
	"maps"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// StudyContrast is a comparison that a study planned before its first run: one arm against another. The permutation
// test decides it, which assumes no distribution, corrected by Holm's method for the planned comparisons alone.
type StudyContrast struct {
	A                 string   `json:"a"` // an arm's name
	B                 string   `json:"b"`
	SeedsA            int      `json:"seeds_a"`
	SeedsB            int      `json:"seeds_b"`
	Difference        *float64 `json:"difference"` // mean of A less that of B
	CILow             *float64 `json:"ci_low"`     // 95 % interval by Welch
	CIHigh            *float64 `json:"ci_high"`
	Improvement       *float64 `json:"improvement"`         // Difference over the mean of B, ratio
	PValue            *float64 `json:"p_value"`             // Welch's, beside it
	PermutationPValue *float64 `json:"permutation_p_value"` // two-sided
	Exact             bool     `json:"exact"`               // over all arrangements
	PValueHolm        *float64 `json:"p_value_holm"`        // the permutation's, corrected for the planned comparisons: it decides
	LeastPValue       *float64 `json:"least_p_value"`       // the lowest that PValueHolm can be with so many seeds
	Outcome           string   `json:"outcome"`             // better, worse, undecided
	Verdict           string   `json:"verdict"`             // all of this in words, set by metrics/wording
}

// newContrasts decides the planned comparisons of a study by the values of a judgment's measure.
func newContrasts(j Judgment) []StudyContrast {
	out := make([]StudyContrast, 0, len(j.Design.Contrasts))
	ps := make([]float64, len(j.Design.Contrasts))
	for i, names := range j.Design.Contrasts {
		a, b := j.seedValues(names[0]), j.seedValues(names[1])
		d, permutation := sample.Welch(a, b), sample.PermutationTest(a, b)
		ps[i] = permutation.P
		c := StudyContrast{
			A: names[0], B: names[1], SeedsA: len(a), SeedsB: len(b), Difference: optional(d.Mean), CILow: optional(d.Low), CIHigh: optional(d.High),
			Improvement: optional(Improvement(sample.Mean(a), sample.Mean(b))), PValue: optional(d.P), PermutationPValue: optional(permutation.P),
			Exact: permutation.Exact, Outcome: OutcomeUndecided,
		}
		if least := sample.LeastPermutation(len(a), len(b)); permutation.Exact {
			c.LeastPValue = optional(min(1, least*float64(len(ps))))
		}
		out = append(out, c)
	}
	tested := slices.Clone(ps)
	for i, p := range tested {
		if math.IsNaN(p) { // planned and not yet run: it counts with p = 1, so that running it later changes no decision
			tested[i] = 1
		}
	}
	for i, corrected := range sample.Holm(tested) {
		if math.IsNaN(ps[i]) {
			continue
		}
		c := &out[i]
		c.PValueHolm = optional(corrected)
		switch {
		case !sample.Significant(corrected):
		case *c.Difference > 0:
			c.Outcome = OutcomeBetter
		default:
			c.Outcome = OutcomeWorse
		}
	}
	return out
}

// seedValues returns the values of an arm in the order of its seeds.
func (j *Judgment) seedValues(arm string) []float64 {
	i := slices.IndexFunc(j.Design.Arms, func(a StudyArm) bool { return a.Name == arm })
	if i < 0 {
		return nil
	}
	return j.SeedValues(j.Design.Arms[i].Experiment)
}

// SeedValues returns the values of an experiment in the order of its seeds.
func (j *Judgment) SeedValues(experiment string) []float64 {
	bySeed := j.Values[experiment]
	values := make([]float64, 0, len(bySeed))
	for _, seed := range slices.Sorted(maps.Keys(bySeed)) {
		values = append(values, bySeed[seed])
	}
	return values
}
