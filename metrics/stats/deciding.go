package stats

import (
	"math"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// Permutation tests of the difference of means over seeds. A pair is decided only if Welch's test decides it, too: the
// permutation test alone rejects too often if the two sides have equal means and unequal spreads.
const (
	DecidedByPermutation = "permutation"         // exact: over all arrangements of the seeds
	DecidedBySampling    = "permutation_sampled" // over random arrangements, because there are too many for an exact test
)

// Deciding returns the p-value that decides a difference: the larger of the permutation test's and Welch's. It is the
// permutation test's where Welch's test has none, because neither side varies.
func Deciding(permutation, welch *float64) *float64 {
	if permutation != nil && welch != nil && *welch > *permutation {
		return welch
	}
	return permutation
}

// deciding returns the pair's Deciding p-value.
func (p Pair) deciding() *float64 { return Deciding(p.PermutationPValue, p.PValue) }

// decidedBy names the permutation test behind a p-value. It is empty if a side has fewer than two seeds.
func decidedBy(p sample.Permutation) string {
	switch {
	case math.IsNaN(p.P):
		return ""
	case p.Exact:
		return DecidedByPermutation
	}
	return DecidedBySampling
}

// correction counts the tests of a comparison for Holm's correction.
type correction struct {
	tests   int // planned tests included; 0: no p-value yet
	decided int // tests with a verdict
	planned int
}

// correct returns the deciding p-values of pairs, corrected by Holm's method for at least the planned tests. Tests
// without a p-value yet count with p = 1, so that the arrival of a pair alone does not change a verdict.
func correct(pairs []Pair, planned int) ([]float64, correction) {
	c := correction{planned: planned}
	ps := make([]float64, len(pairs))
	for i, p := range pairs {
		ps[i] = math.NaN()
		if deciding := p.deciding(); deciding != nil {
			ps[i] = *deciding
			c.tests++
		}
	}
	for ; c.tests > 0 && c.tests < planned; c.tests++ {
		ps = append(ps, 1)
	}
	corrected := sample.Holm(ps)[:len(pairs)]
	for _, p := range corrected {
		if sample.Significant(p) {
			c.decided++
		}
	}
	return corrected, c
}

// significant reports whether the corrected p-value is below the level.
func (p Pair) significant() bool { return p.PValueHolm != nil && sample.Significant(*p.PValueHolm) }

// outcome returns the outcome of a pair whose corrected p-value is PValueHolm.
func (p Pair) outcome() string {
	switch {
	case !p.significant(), p.selected(), min(p.SeedsA, p.SeedsB) < EnoughSeeds:
		return OutcomeUndecided
	case *p.Difference > 0:
		return OutcomeBetter
	}
	return OutcomeWorse
}

// seedsToDecide returns the least number of seeds per side with which a pair whose sides have a and b can be decided.
func (c correction) seedsToDecide(a, b int) int {
	return sample.SeedsToDecide(max(c.tests, c.planned), a, b)
}
