package study

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// An experiment's own runs come first, then those of experiments that are alike, then all.
func TestTheDeviationOfAnExperimentHasTheBestBasis(t *testing.T) {
	five := func(step float64) []float64 { return []float64{0, step, 2 * step, 3 * step, 4 * step} }
	recorded := []recordedArm{
		{"control-4loc4ext", "4 4 8 importance", five(0.001)}, {"paper-4loc4ext", "4 4 8 none", five(0.02)}, {"new-4loc4ext", "4 4 8 none", five(0.04)[:2]},
	}
	deviation := func(groups ...[]float64) float64 { d, _ := sample.PooledDeviation(groups...); return d }
	for _, c := range []struct {
		experiment, kind, basis string
		want                    float64
		freedom                 int
	}{
		{"paper-4loc4ext", "4 4 8 none", basisOwn, deviation(five(0.02)), 4},
		{"new-4loc4ext", "4 4 8 none", basisAlike, deviation(five(0.02), five(0.04)[:2]), 5},
		{"new-8loc0ext", "8 0 8", basisPooled, deviation(five(0.001), five(0.02), five(0.04)[:2]), 9},
	} {
		arm := newPowerArm("x", c.experiment, c.kind, recorded)
		require.Equal(t, []any{c.basis, c.freedom}, []any{arm.Basis, arm.Freedom}, c.experiment)
		require.InDelta(t, c.want, *arm.Deviation, 1e-12)
	}
	arm := newPowerArm("x", "new-4loc4ext", "4 4 8 none", recorded[2:])
	require.Nil(t, arm.Deviation, "one degree of freedom is not enough")
	require.Empty(t, arm.Basis)
}

// Experiments of different studies are alike if they train alike, however their files say it.
func TestExperimentsThatTrainAlikeAreAlike(t *testing.T) {
	nano, err := configs.LoadModel("nano")
	require.NoError(t, err)
	kind := func(study, experiment string) string {
		s, err := configs.LoadStudy(study)
		require.NoError(t, err)
		kinds, err := kindsOf(s, "", nano)
		require.NoError(t, err)
		i := slices.IndexFunc(s.Experiments, func(e configs.StudyExperiment) bool { return e.Name == experiment })
		require.NotEqual(t, -1, i, experiment)
		return kinds[i]
	}
	for _, c := range []struct {
		study, experiment, like string
		alike                   bool
	}{
		{"paper", "8loc0ext", "8loc0ext", true}, {"learning-rate", "8loc0ext", "8loc0ext", true}, {"own-data", "8loc0ext", "8loc0ext", true},
		{"corrected", "4loc4ext", "4loc4ext", true}, {"paper", "4loc4ext", "4loc4ext", false}, {"paper", "4loc4ext", "4loc4ext-uncorrected", true},
		{"specialists", "all-8loc0ext", "8loc0ext", false}, {"teacher", "2loc6ext", "2loc6ext", false}, {"teacher", "2loc6ext-teacher", "2loc6ext", false},
		{"alternatives", "2loc0ext-4steps", "2loc0ext", false}, {"alternatives", "2loc0ext-double", "2loc0ext", false}, {"sparse", "8loc0ext", "8loc0ext", false},
	} {
		require.Equal(t, c.alike, kind(c.study, c.experiment) == kind("control", c.like), "%s-%s", c.study, c.experiment)
	}
}

func TestTheWorstComparisonCounts(t *testing.T) {
	p := Power{tests: 2, Experiments: []PowerArm{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	small, large := 0.004, 0.04
	p.Experiments[0].Deviation, p.Experiments[1].Deviation = &small, &large
	comparisons := []PowerComparison{p.compare([2]string{"a", "a"}, 5, []float64{0.02}), p.compare([2]string{"b", "a"}, 5, []float64{0.02})}
	require.Equal(t, comparisons[1].Rows[0], worst(comparisons, 0))
	require.Greater(t, *comparisons[0].Rows[0].Power, 0.9)
	require.Less(t, *comparisons[1].Rows[0].Power, 0.2, "the variation of its own arms counts, not the mean over the study")
	comparisons = append(comparisons, p.compare([2]string{"c", "a"}, 5, []float64{0.02}))
	require.Nil(t, worst(comparisons, 0).Power, "nothing is known of c")
}
