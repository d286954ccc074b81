package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two questions of each of two tasks, with differences of 0.1, 0.3, 0.2 and 0.6 for every seed: a resample has one of
// each task, so that the difference is (0.1 or 0.3, plus 0.2 or 0.6) / 2, each with probability 1/4.
func TestQuestionsAreDrawnWithinTheirTask(t *testing.T) {
	a, b := []float64{0.5, 0.8, 0.3, 0.9}, []float64{0.4, 0.5, 0.1, 0.3}
	low, high := NewCrossed([]string{"x", "x", "y", "y"}).Difference([][]float64{a, a, a}, [][]float64{b, b})
	require.InDeltaSlice(t, []float64{0.15, 0.45}, []float64{low, high}, 1e-12)
	low, high = NewCrossed([]string{"x", "x", "y", "z"}).Difference([][]float64{a, a, a}, [][]float64{b, b})
	require.InDeltaSlice(t, []float64{(2*0.1 + 0.2 + 0.6) / 4, (2*0.3 + 0.2 + 0.6) / 4}, []float64{low, high}, 1e-12, "a task's only question stays")
}

// If questions are all alike, the interval is Welch's, however few seeds there are.
func TestSeedsAloneGiveWelchsInterval(t *testing.T) {
	each := func(values []float64) (results [][]float64) {
		for _, v := range values {
			results = append(results, []float64{v, v, v})
		}
		return results
	}
	for name, x := range map[string][2][]float64{
		"three against three": {{0.30, 0.32, 0.37}, {0.25, 0.28, 0.26}},
		"five against four":   {{0.30, 0.32, 0.37, 0.33, 0.31}, {0.25, 0.28, 0.26, 0.31}},
		"one side varies":     {{0.30, 0.32, 0.37, 0.33, 0.31}, {0.25, 0.25, 0.25}},
	} {
		low, high := NewCrossed([]string{"x", "x", "y"}).Difference(each(x[0]), each(x[1]))
		welch := Welch(x[0], x[1])
		require.InDeltaSlice(t, []float64{welch.Low, welch.High}, []float64{low, high}, 0.06*(welch.High-welch.Low), name)
		low, high = NewCrossed([]string{"x", "x", "y"}).Improvement(each(x[0]), each(x[1]))
		fiellerLow, fiellerHigh := ImprovementInterval(x[0], x[1])
		require.InDeltaSlice(t, []float64{fiellerLow, fiellerHigh}, []float64{low, high}, 0.06*(fiellerHigh-fiellerLow), name)
	}
}

func TestTheIntervalOverSeedsAndQuestionsRepeats(t *testing.T) {
	strata := []string{"x", "y", "x", "y", "x"}
	a := [][]float64{{0.1, 0.2, 0.3, 0.4, 0.5}, {0.2, 0.2, 0.4, 0.4, 0.6}}
	b := [][]float64{{0.1, 0.1, 0.1, 0.4, 0.3}, {0, 0.2, 0.1, 0.4, 0.6}, {0.1, 0.1, 0.2, 0.3, 0.4}}
	low, high := NewCrossed(strata).Difference(a, b)
	again, too := NewCrossed(strata).Difference(a, b)
	require.Equal(t, []float64{low, high}, []float64{again, too})
	require.Less(t, low, high)
	low, high = NewCrossed(strata).Improvement(a, b)
	again, too = NewCrossed(strata).Improvement(a, b)
	require.Equal(t, []float64{low, high}, []float64{again, too})
	low, _ = NewCrossed(strata).Difference(a[:1], b)
	require.True(t, math.IsNaN(low), "one seed says nothing of others")
	low, _ = NewCrossed(strata).Improvement(a[:1], b)
	require.True(t, math.IsNaN(low))
}

// The true difference is 0 for fresh seeds and fresh questions: an interval contains it in about 95 % of repetitions,
// while Welch's, over seeds alone, misses it most of the time. Questions of a task are alike, easy or hard. How much
// more a question suits one side varies, as do seeds and single answers.
func TestCoverageOverOtherSeedsAndQuestions(t *testing.T) {
	const repetitions, seeds, questions, tasks = 100, 5, 27, 9
	strata := make([]string, questions)
	for q := range strata {
		strata[q] = fmt.Sprint(q % tasks)
	}
	random := rand.New(rand.NewPCG(5, 5))
	for name, sd := range map[string]struct{ seed, question, answer float64 }{
		"seeds vary":          {0.02, 0.01, 0.02},
		"questions vary":      {0.005, 0.15, 0.05},
		"both vary":           {0.02, 0.15, 0.1},
		"single answers vary": {0.002, 0.01, 0.3},
	} {
		c := NewCrossed(strata)
		covered, welch, ratios := 0, 0, 0
		for range repetitions {
			suits, easy := make([]float64, questions), make([]float64, questions)
			for q := range suits {
				suits[q], easy[q] = sd.question*random.NormFloat64(), float64(q%tasks)/tasks+0.1*random.NormFloat64()
			}
			side := func(sign float64) (results [][]float64, means []float64) {
				for range seeds {
					apart := sd.seed * random.NormFloat64()
					result := make([]float64, questions)
					for q := range result {
						result[q] = easy[q] + apart + sign*suits[q]/2 + sd.answer*random.NormFloat64()
					}
					results, means = append(results, result), append(means, Mean(result))
				}
				return results, means
			}
			a, meansA := side(1)
			b, meansB := side(-1)
			if low, high := c.Difference(a, b); low <= 0 && 0 <= high {
				covered++
			}
			if low, high := c.Improvement(a, b); low <= 0 && 0 <= high {
				ratios++
			}
			if d := Welch(meansA, meansB); d.Low <= 0 && 0 <= d.High {
				welch++
			}
		}
		share, alone := float64(covered)/repetitions, float64(welch)/repetitions
		t.Logf("%s: %.3f, over seeds alone %.3f", name, share, alone)
		require.Greater(t, share, 0.9, name)
		require.InDelta(t, share, float64(ratios)/repetitions, 0.02, "%s: of the ratio 1", name)
		if name == "questions vary" {
			require.Less(t, alone, 0.6, name)
		}
	}
}

func BenchmarkCrossed(b *testing.B) {
	strata := make([]string, 108)
	for q := range strata {
		strata[q] = fmt.Sprint(q / 12)
	}
	c, x := NewCrossed(strata), slices.Repeat([]float64{0.25, 0.5}, 54)
	y := slices.Repeat([]float64{0.35, 0.5}, 54)
	for b.Loop() {
		c.Difference([][]float64{x, y, x, y, x}, [][]float64{x, x, x, y, x})
	}
}
