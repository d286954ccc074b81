package stats

import (
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// StudyContrast is a comparison that a study planned before its first run: one arm against another. It is a pair of the
// study's, corrected by Holm's method for the planned comparisons alone.
type StudyContrast struct {
	A                 string   `json:"a"` // an arm's name
	B                 string   `json:"b"`
	SeedsA            int      `json:"seeds_a"`
	SeedsB            int      `json:"seeds_b"`
	Difference        *float64 `json:"difference"` // mean of A less that of B
	CILow             *float64 `json:"ci_low"`     // 95 % interval by Welch
	CIHigh            *float64 `json:"ci_high"`
	Improvement       *float64 `json:"improvement"`        // Difference over the mean of B, ratio
	ImprovementLow    *float64 `json:"improvement_ci_low"` // its 95 % interval, as in Pair
	ImprovementHigh   *float64 `json:"improvement_ci_high"`
	PValue            *float64 `json:"p_value"`             // Welch's, beside it
	PermutationPValue *float64 `json:"permutation_p_value"` // two-sided
	Exact             bool     `json:"exact"`               // over all arrangements
	DecidedBy         string   `json:"decided_by"`          // as in Pair
	PValueHolm        *float64 `json:"p_value_holm"`        // the larger of both, corrected for the planned comparisons: it decides
	LeastPValue       *float64 `json:"least_p_value"`       // the lowest that PValueHolm can be with so many seeds
	Outcome           string   `json:"outcome"`             // better, worse, undecided, not comparable
	Verdict           string   `json:"verdict"`             // all of this in words, set by metrics/wording
	QuestionInterval

	Selected bool `json:"-"` // undecided because the higher side's mean leaves out runs that the alarm stopped
}

// Decided reports whether the comparison is better or worse.
func (c StudyContrast) Decided() bool { return c.Outcome == OutcomeBetter || c.Outcome == OutcomeWorse }

// CanDecide reports whether so many seeds can decide the comparison, however large the difference is.
func (c StudyContrast) CanDecide() bool {
	return min(c.SeedsA, c.SeedsB) >= EnoughSeeds && c.LeastPValue != nil && sample.Significant(*c.LeastPValue)
}

// newContrasts decides the planned comparisons of a study by a judgment's pairs.
func newContrasts(j Judgment) []StudyContrast {
	pairs := make([]Pair, len(j.Design.Contrasts))
	for i, names := range j.Design.Contrasts {
		pairs[i], _ = j.Pair(j.experiment(names[0]), j.experiment(names[1]))
	}
	for i := range pairs {
		pairs[i].SeedsA, pairs[i].SeedsB = len(j.Values[pairs[i].A]), len(j.Values[pairs[i].B])
	}
	return j.Design.contrasts(pairs)
}

// contrasts corrects pairs for each other, and decides them.
func (d StudyDesign) contrasts(pairs []Pair) []StudyContrast {
	corrected, _ := correct(pairs, len(pairs))
	out := make([]StudyContrast, 0, len(pairs))
	for i, p := range pairs {
		p.PValueHolm = Optional(corrected[i])
		c := StudyContrast{
			A: d.ShortName(p.A), B: d.ShortName(p.B), SeedsA: p.SeedsA, SeedsB: p.SeedsB, Difference: p.Difference, CILow: p.CILow, CIHigh: p.CIHigh,
			Improvement: p.Improvement, ImprovementLow: p.ImprovementLow, ImprovementHigh: p.ImprovementHigh, PValue: p.PValue, PermutationPValue: p.PermutationPValue, Exact: p.DecidedBy == DecidedByPermutation,
			DecidedBy: p.DecidedBy, PValueHolm: p.PValueHolm, Outcome: p.outcome(), QuestionInterval: p.QuestionInterval,
		}
		c.Selected = p.selected()
		if p.Outcome == OutcomeNotComparable {
			c.Outcome = OutcomeNotComparable
		}
		c.LeastPValue = Optional(min(1, sample.LeastPermutation(c.SeedsA, c.SeedsB)*float64(len(pairs))))
		out = append(out, c)
	}
	return out
}

// experiment returns the experiment of an arm.
func (j *Judgment) experiment(arm string) string {
	i := slices.IndexFunc(j.Design.Arms, func(a StudyArm) bool { return a.Name == arm })
	if i < 0 {
		return arm
	}
	return j.Design.Arms[i].Experiment
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
