package sample

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMovingAverageTrails(t *testing.T) {
	got := MovingAverage([]float64{1, 3, nan, 5, 7}, 2)
	require.Equal(t, []float64{1, 2, 3, 5, 6}, got)
	require.True(t, math.IsNaN(MovingAverage([]float64{nan}, 3)[0]))
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOf(rapid.Float64Range(-1, 1)).Draw(t, "xs")
		w := rapid.IntRange(1, 5).Draw(t, "window")
		for i, v := range MovingAverage(xs, w) {
			sum, n := 0.0, 0.0
			for j := i; j >= 0 && j > i-w; j-- {
				sum, n = sum+xs[j], n+1
			}
			require.InDelta(t, sum/n, v, 1e-12)
		}
	})
}

func TestMovingAverageIsExactAtAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOf(rapid.OneOf(rapid.Float64Range(0, 1), rapid.Just(nan), rapid.Just(1e300))).Draw(t, "xs")
		w := rapid.IntRange(1, 70).Draw(t, "window")
		for i, v := range MovingAverage(xs, w) {
			want := Mean(xs[max(0, i-w+1) : i+1])
			if math.IsNaN(want) {
				require.True(t, math.IsNaN(v))
			} else {
				require.InEpsilon(t, 1+want, 1+v, 1e-12)
			}
		}
	})
}

func TestThinningKeepsExtremes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, count := rapid.IntRange(1, 400).Draw(t, "rounds"), rapid.IntRange(1, 6).Draw(t, "series")
		points := rapid.IntRange(0, 120).Draw(t, "points")
		value := rapid.OneOf(rapid.Float64Range(-1, 1), rapid.Just(nan), rapid.Just(math.Inf(1)))
		series := make([][]float64, count)
		for i := range series {
			series[i] = rapid.SliceOfN(value, n, n).Draw(t, "values")
		}
		kept := KeepExtremes(series, points)
		require.True(t, slices.IsSorted(kept))
		require.Len(t, slices.Compact(slices.Clone(kept)), len(kept))
		if points > 0 {
			require.LessOrEqual(t, len(kept), max(points, 2*count+2))
		} else {
			require.Len(t, kept, n)
		}
		require.Equal(t, []int{0, n - 1}, []int{kept[0], kept[len(kept)-1]})
		for _, values := range series {
			low, high := extremes(values)
			if low < 0 {
				continue
			}
			var left []float64
			for _, i := range kept {
				left = append(left, values[i])
			}
			l, h := extremes(left)
			require.Equal(t, []float64{values[low], values[high]}, []float64{left[l], left[h]})
		}
	})
	require.Empty(t, KeepExtremes(nil, 10))
	require.Empty(t, KeepExtremes([][]float64{{}}, 10))
}
