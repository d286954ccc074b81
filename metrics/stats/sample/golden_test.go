package sample

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var nan = math.NaN()

// golden is testdata/golden.json: SciPy's results, written by testdata/golden.py.
type golden struct {
	Differences map[string]struct {
		A, B                                  []float64
		Difference, Low, High, P, Probability float64
		MeanLow                               float64 `json:"mean_low"`
		MeanHigh                              float64 `json:"mean_high"`
		Permutation                           float64
		Exact                                 bool
		IQM                                   float64
		IQMLow                                float64 `json:"iqm_low"`
		IQMHigh                               float64 `json:"iqm_high"`
	}
	Powers []struct{ Noncentrality, Freedom, Level, Power float64 }
	Seeds  []struct {
		Difference float64
		N          int
	}
}

func readGolden(t *testing.T) golden {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var g golden
	require.NoError(t, json.Unmarshal(text, &g))
	require.NotEmpty(t, g.Differences)
	return g
}

func TestDifferencesAreSciPys(t *testing.T) {
	for name, x := range readGolden(t).Differences {
		d := Welch(x.A, x.B)
		require.InDeltaSlice(t, []float64{x.Difference, x.Low, x.High, x.P}, []float64{d.Mean, d.Low, d.High, d.P}, 1e-9, name)
		require.InDelta(t, x.Probability, ProbabilityOfImprovement(x.A, x.B), 1e-12, name)
		_, low, high := MeanInterval(x.A)
		require.InDeltaSlice(t, []float64{x.MeanLow, x.MeanHigh}, []float64{low, high}, 1e-9, name)
		p := PermutationTest(x.A, x.B)
		require.Equal(t, x.Exact, p.Exact, name)
		if x.Exact {
			require.InDelta(t, x.Permutation, p.P, 1e-12, name)
			require.Zero(t, p.Error)
		} else {
			require.InDelta(t, x.Permutation, p.P, 5*p.Error+0.002, name)
			require.Less(t, p.Error, 0.004)
			require.Positive(t, p.Error)
		}
	}
}

// SciPy's bootstrap draws other resamples: of few values an interval's end is one of few, and may be the next.
func TestBootstrapsAreSciPys(t *testing.T) {
	for name, x := range readGolden(t).Differences {
		require.InDelta(t, x.IQM, IQM(x.A), 1e-12, name)
		low, high := new(Bootstrap).IQM(x.A)
		near := (slices.Max(x.A) - slices.Min(x.A)) / 20
		require.InDeltaSlice(t, []float64{x.IQMLow, x.IQMHigh}, []float64{low, high}, near, name)
	}
}

func TestPowerIsTheNoncentralT(t *testing.T) {
	g := readGolden(t)
	for _, x := range g.Powers {
		require.InDelta(t, x.Power, Power(x.Noncentrality, x.Freedom, x.Level), 1e-4, "%+v", x)
	}
	for _, x := range g.Seeds {
		s := math.Sqrt(0.5) // standard deviation of {0, 2s} is 1
		n, ok := SeedsNeeded([]float64{0, 2 * s}, []float64{x.Difference, x.Difference + 2*s}, 0.05)
		require.True(t, ok)
		require.Equal(t, x.N, n, "difference %v", x.Difference)
	}
	_, ok := SeedsNeeded([]float64{1, 2}, []float64{1, 2}, 0.05)
	require.False(t, ok, "no difference: no number of seeds shows one")
	_, ok = SeedsNeeded([]float64{1, 2}, []float64{1.001, 2.001}, 0.05)
	require.False(t, ok, "more than anybody trains")
	_, ok = SeedsNeeded([]float64{1}, []float64{2, 3}, 0.05)
	require.False(t, ok)
}

// The example of Holm's method on Wikipedia: four hypotheses with p = 0.01, 0.04, 0.03, 0.005. The first and the last
// are rejected at 0.05.
func TestHolm(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005, nan})
	require.InDeltaSlice(t, []float64{0.03, 0.06, 0.06, 0.02}, got[:4], 1e-12)
	require.True(t, math.IsNaN(got[4]), "what is no test isn't counted")
	require.Equal(t, []float64{1, 1}, Holm([]float64{0.9, 0.8}))
	require.Empty(t, Holm(nil))
}

// The rate of false positives must not exceed the test's level.
func TestWelchIsRightAboutNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 1))
	const trials = 4000
	seen := 0
	for range trials {
		a, b := make([]float64, 4), make([]float64, 6)
		for i := range a {
			a[i] = random.NormFloat64()
		}
		for i := range b {
			b[i] = 3 * random.NormFloat64()
		}
		if Welch(a, b).P < 0.05 {
			seen++
		}
	}
	require.InDelta(t, 0.05, float64(seen)/trials, 0.015)
}

func TestPermutationDoesNotCareForOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 12)
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		p := PermutationTest(a, b)
		require.Equal(t, p, PermutationTest(b, a))
		require.Equal(t, p, PermutationTest(rapid.Permutation(a).Draw(t, "a again"), b))
		require.Positive(t, p.P)
		require.LessOrEqual(t, p.P, 1.0)
		if p.Exact {
			require.GreaterOrEqual(t, p.P, 1/float64(p.Arrangements)-1e-15, "the arrangement seen is one of them")
		}
	})
	require.True(t, math.IsNaN(PermutationTest([]float64{1}, []float64{1, 2}).P))
}

// TestWelch checks against the first example of Wikipedia's "Welch's t-test": t = -2.46, 25.0 degrees of freedom, p =
// 0.021.
func TestWelch(t *testing.T) {
	a := []float64{27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4}
	b := []float64{27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4}
	d := Welch(a, b)
	require.InDelta(t, 20.82-22.98666666, d.Mean, 1e-6)
	require.InDelta(t, 0.021, d.P, 0.0005)
	require.InDelta(t, d.Mean, (d.Low+d.High)/2, 1e-12)
	const quantile = 2.0595 // 97.5 % quantile of t with 25 degrees of freedom
	require.InDelta(t, -2.46, d.Mean/((d.High-d.Low)/2)*quantile, 0.006)
	require.True(t, math.IsNaN(Welch([]float64{1}, []float64{1, 2}).P))
	require.True(t, math.IsNaN(Welch([]float64{1, 1}, []float64{2, 2}).P))
}

// Equal means are the smallest possible difference, whatever the rounding of their sums.
func TestPermutationOfEqualMeansIsCertain(t *testing.T) {
	for _, sides := range [][2][]float64{
		{{0.3, 0.6, 0.9}, {0.6, 0.7, 0.5}},
		{{1.1, 2.2, 3.3, 4.4}, {4.4, 3.3, 2.2, 1.1}},
		{{1e6 + 0.3, 1e6 + 0.6, 1e6 + 0.9}, {1e6 + 0.6, 1e6 + 0.7, 1e6 + 0.5}},
	} {
		require.InDelta(t, 1, PermutationTest(sides[0], sides[1]).P, 0, "%v", sides)
		require.InDelta(t, 1, PermutationTest(sides[1], sides[0]).P, 0, "%v", sides)
	}
}

func TestQuantileLiesAmongTheValuesAndGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 30).Draw(t, "xs")
		slices.Sort(xs)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		r := rapid.Float64Range(q, 1).Draw(t, "r")
		a, b := Quantile(xs, q), Quantile(xs, r)
		if a < xs[0] || b > xs[len(xs)-1] || a > b+1e-6 {
			t.Fatalf("quantiles %v and %v of %v", a, b, xs)
		}
	})
}
