package heldout

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAHeldOutCurveIsInterpolatedBetweenEvaluations(t *testing.T) {
	h := Curve{Place: []float64{0, 100, 200, 400}, Pass: []float64{0.1, 0.3, 0.2, 0.6}}
	for x, want := range map[float64]float64{0: 0.1, 50: 0.2, 100: 0.3, 150: 0.25, 300: 0.4, 400: 0.6} {
		got, ok := h.At(x)
		require.True(t, ok, x)
		require.InDelta(t, want, got, 1e-12, x)
	}
	for _, x := range []float64{-1, 400.001, math.Inf(1), math.NaN()} {
		_, ok := h.At(x)
		require.False(t, ok, "nothing is known of %v", x)
	}
	_, ok := Curve{}.At(0)
	require.False(t, ok)
}

func TestThePartsOfAnInterpolatedValue(t *testing.T) {
	h := Curve{Place: []float64{0, 100, 200, 400}, Pass: []float64{0.1, 0.3, 0.2, 0.6}}
	next, share, ok := h.Around(250)
	require.Equal(t, []any{3, 0.25, true}, []any{next, share, ok})
	next, share, ok = h.Around(200)
	require.Equal(t, []any{2, 1.0, true}, []any{next, share, ok})
	_, _, ok = h.Around(401)
	require.False(t, ok)
}

func TestTheAreaIsTheMeanOnTheWay(t *testing.T) {
	h := Curve{Place: []float64{0, 100, 200, 400}, Pass: []float64{0.1, 0.3, 0.2, 0.6}}
	for x, want := range map[float64]float64{
		50:  0.15,                                // (0.1 + 0.2) / 2
		200: (20 + 25) / 200.0,                   // 100 × 0.2 + 100 × 0.25
		300: (20 + 25 + 30) / 300.0,              // and 100 × (0.2 + 0.4) / 2
		400: (20.0 + 25 + 200*(0.2+0.6)/2) / 400, // all of it
	} {
		got, ok := h.Area(x)
		require.True(t, ok, x)
		require.InDelta(t, want, got, 1e-12, x)
	}
	for _, x := range []float64{0, 401, math.Inf(1)} {
		_, ok := h.Area(x)
		require.False(t, ok, x)
	}
	_, ok := Curve{Place: []float64{50, 100}, Pass: []float64{0.1, 0.2}}.Area(100)
	require.False(t, ok, "it says nothing of what was before its first evaluation")
}

func TestACurveReachesATargetWhereItFirstMeetsIt(t *testing.T) {
	h := Curve{Place: []float64{0, 100, 200, 400}, Pass: []float64{0.1, 0.3, 0.2, 0.6}}
	for target, want := range map[float64]float64{0.05: 0, 0.1: 0, 0.2: 50, 0.3: 100, 0.4: 300, 0.6: 400} {
		require.InDelta(t, want, h.Reach(target), 1e-9, target)
	}
	require.True(t, math.IsInf(h.Reach(0.61), 1))
	require.True(t, math.IsInf(Curve{}.Reach(0.1), 1))
}

// Usual horizons are halves and doubles of the common one.
func TestUsualHorizons(t *testing.T) {
	arm := func(name string, places ...float64) Arm {
		return Arm{Name: name, Runs: []Run{{Curve: Curve{Place: places, Pass: make([]float64, len(places))}}}}
	}
	arms := Arms{arm("8/0", 0, 25600, 153600), arm("4/4", 0, 12800, 76800), arm("2/6", 0, 6400, 38400)}
	require.InDelta(t, 38400, arms.Common(), 0)
	require.Equal(t, []float64{9600, 19200, 38400, 76800}, arms.Usual())
	arms = Arms{arm("8/0", 0, 1, 2, 3, 300), arm("4/4", 0, 150, 301)}
	require.Equal(t, []float64{37, 75, 150, 300}, arms.Usual(), "whole numbers, and three halves at most")
	arms[0].Runs[0].Explored = true
	require.InDelta(t, 301, arms.Common(), 0, "explored runs do not bound it")
	arms[1].Runs[0].Explored = true
	require.InDelta(t, 300, arms.Common(), 0, "unless there are no others")
	require.Empty(t, Arms{}.Usual())
	require.Empty(t, Arms{}.Rows(nil))
}

func TestRunsOfOneSeedCountOnce(t *testing.T) {
	flat := func(seed int64, pass, end float64) Run {
		return Run{Seed: seed, Curve: Curve{Place: []float64{0, end}, Pass: []float64{pass, pass}}}
	}
	arms := Arms{{"a", []Run{flat(1, 0.1, 10), flat(1, 0.3, 20), flat(2, 0.5, 10)}}}
	row := arms.Rows([]float64{5, 15})[0]
	require.Equal(t, 2, row.Seeds)
	require.InDeltaSlice(t, []float64{0.35, 0.2, 0.5, 0.35, 0.35}, []float64{*row.Values[0], *row.Lows[0], *row.Highs[0], *row.Area, *row.End}, 1e-12)
	require.Nil(t, row.Values[1], "two of the runs ended before")
	require.Equal(t, []Cost{{Name: "a", Seeds: 2, Reached: 1}}, arms.Costs(0.4), "the median lies between one that reached it and one that did not")
	require.Equal(t, 1, arms.Costs(0.2)[0].Reached, "a seed reaches a target with all of its runs")
}
