package stats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// contrastsOf decides contrasts of arms a, b and c with the given values, seeds 0, 1, 2 and so on.
func contrastsOf(values map[string][]float64, contrasts ...[2]string) []StudyContrast {
	j := Judgment{Values: map[string]map[int64]float64{}}
	for _, name := range []string{"a", "b", "c"} {
		j.Design.Arms = append(j.Design.Arms, StudyArm{Name: name, Experiment: "study-" + name})
		bySeed := map[int64]float64{}
		for seed, v := range values[name] {
			bySeed[int64(seed)] = v
		}
		j.Values["study-"+name] = bySeed
	}
	j.Design.Contrasts = contrasts
	return newContrasts(j)
}

// Five seeds that all lie above five others: one arrangement of 252 is as far apart, and its mirror image.
func TestExactPermutationDecidesPlannedComparisons(t *testing.T) {
	high, low := []float64{0.35, 0.351, 0.352, 0.353, 0.36}, []float64{0.31, 0.32, 0.321, 0.319, 0.33}
	c := contrastsOf(map[string][]float64{"a": high, "b": low, "c": high}, [2]string{"a", "b"}, [2]string{"b", "c"}, [2]string{"a", "c"})
	require.InDelta(t, 2.0/252, *c[0].PermutationPValue, 1e-12)
	require.InDelta(t, 3*2.0/252, *c[0].PValueHolm, 1e-12)
	require.InDelta(t, 3*2.0/252, *c[0].LeastPValue, 1e-12)
	require.Equal(t, []string{OutcomeBetter, OutcomeWorse, OutcomeUndecided}, []string{c[0].Outcome, c[1].Outcome, c[2].Outcome})
	require.InDelta(t, 0.0332, *c[0].Difference, 1e-12)
}

// Three seeds a side decide nothing, however far they are apart.
func TestThreeSeedsDecideNoPlannedComparison(t *testing.T) {
	c := contrastsOf(map[string][]float64{"a": {10, 10.1, 10.2}, "b": {0, 0.1, 0.2}}, [2]string{"a", "b"})[0]
	require.InDelta(t, 0.1, *c.PermutationPValue, 1e-12)
	require.InDelta(t, 0.1, *c.LeastPValue, 1e-12)
	require.Equal(t, OutcomeUndecided, c.Outcome)
}

// A planned comparison without runs counts as a test, so that running it later changes no decision.
func TestPlannedComparisonsCountBeforeTheyAreRun(t *testing.T) {
	c := contrastsOf(map[string][]float64{"a": {1, 1.1, 1.2, 1.3, 1.4}, "b": {0, 0.1, 0.2, 0.3, 0.4}}, [2]string{"a", "b"}, [2]string{"a", "c"})
	require.InDelta(t, 2*2.0/252, *c[0].PValueHolm, 1e-12)
	require.Nil(t, c[1].PValueHolm)
	require.Nil(t, c[1].Difference)
	require.Equal(t, OutcomeUndecided, c[1].Outcome)
	require.False(t, math.IsNaN(*c[0].Difference))
}
