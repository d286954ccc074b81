package stats

import "github.com/sapo-swarm/swarm/metrics/stats/sample"

// Tests that decide a Pair.
const (
	DecidedByPermutation = "permutation" // the exact permutation test over all arrangements of the seeds
	DecidedByWelch       = "welch"       // Welch's t-test, if there are too many arrangements for an exact test
)

// deciding returns the test that decides. The exact permutation test comes first, because it assumes no distribution.
// welch is the p-value of Welch's test. It is nil if the values do not vary or a side has fewer than two, and then no
// test decides.
func deciding(welch *float64, permutation sample.Permutation) string {
	switch {
	case welch == nil:
		return ""
	case permutation.Exact:
		return DecidedByPermutation
	}
	return DecidedByWelch
}

// DecidingP returns the p-value of the test that decides, without correction; nil: no test.
func (p Pair) DecidingP() *float64 { return decidingP(p.DecidedBy, p.PValue, p.PermutationPValue) }

// DecidingP returns the p-value of the test that decides the row's pair with the baseline, without correction; nil: no
// test.
func (r Row) DecidingP() *float64 { return decidingP(r.DecidedBy, r.PValue, r.PermutationPValue) }

func decidingP(by string, welch, permutation *float64) *float64 {
	if by == DecidedByPermutation {
		return permutation
	}
	return welch
}

// correction counts the tests of a comparison for Holm's correction.
type correction struct {
	tests   int // planned tests included; 0: no p-value yet
	decided int // tests with a verdict
	planned int
}

// seedsToDecide returns the least number of seeds per side with which a pair whose sides have a and b can be decided.
func (c correction) seedsToDecide(a, b int) int {
	return sample.SeedsToDecide(max(c.tests, c.planned), a, b)
}
