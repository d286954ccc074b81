package sample

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPooledDeviation(t *testing.T) {
	deviation, freedom := PooledDeviation([]float64{1, 3}, []float64{10, 12, 14}, []float64{7}, nil)
	require.Equal(t, 3, freedom)
	require.InDelta(t, math.Sqrt((2*1+4*2)/3.0), deviation, 1e-12)
	deviation, freedom = PooledDeviation([]float64{1}, nil)
	require.Zero(t, freedom)
	require.True(t, math.IsNaN(deviation))
}

// Above eight seeds a side the power is that of Welch's test: the sizes are the first at which it is 0.8 or more by
// SciPy 1.10 (nct).
func TestSeedsBeyondTheExactTest(t *testing.T) {
	for _, c := range []struct {
		effect      float64
		tests, want int
	}{
		{0.5, 1, 64}, {1, 1, 17}, {1, 10, 29},
	} {
		n, ok := PlannedTest{c.effect * 0.01, 0.01, 0.01, c.tests}.Seeds()
		require.True(t, ok)
		require.Equal(t, c.want, n, "%v of %d tests", c.effect, c.tests)
	}
	for _, none := range []PlannedTest{{0, 1, 1, 1}, {1, 0, 0, 1}, {math.NaN(), 1, 1, 1}, {1, math.Inf(1), 1, 1}, {1e-6, 1, 1, 1}} {
		_, ok := none.Seeds()
		require.False(t, ok, none)
	}
}

// The simulated power is the share of samples that both tests decide.
func TestPowerIsThatOfBothTests(t *testing.T) {
	x := PlannedTest{Difference: 0.02, A: 0.005, B: 0.015, Tests: 2}
	random := rand.New(rand.NewPCG(1, 2))
	decided, samples := 0, 600
	for range samples {
		a, b := make([]float64, 5), make([]float64, 5)
		for i := range a {
			a[i], b[i] = x.Difference+x.A*random.NormFloat64(), x.B*random.NormFloat64()
		}
		if Significant(max(PermutationTest(a, b).P, Welch(a, b).P) * float64(x.Tests)) {
			decided++
		}
	}
	require.InDelta(t, float64(decided)/float64(samples), x.Power(5), 0.06)
	require.Zero(t, x.Power(4), "0.029 is not below 0.025")
	x.Tests = 1
	require.Greater(t, x.Power(8), x.Power(5))
	require.InDelta(t, x.Power(8), x.Power(9), 0.06, "Welch's test continues where the exact one ends")
	x.Difference = 1
	require.InDelta(t, 1, x.Power(4), 0)
	n, ok := x.Seeds()
	require.Equal(t, []any{4, true}, []any{n, ok})
	x.Difference = 1e-9
	require.InDelta(t, 0.05, x.Power(6), 0.02, "without a difference it decides by chance alone")
}
