package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFitLineFindsTheLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fixed, slope := rapid.Int64Range(1, 1e11).Draw(t, "fixed"), rapid.Int64Range(0, 1e9).Draw(t, "slope")
		sizes := rapid.SliceOfNDistinct(rapid.IntRange(1, 4096), 2, 6, rapid.ID[int]).Draw(t, "sizes")
		var points []Point
		for _, n := range sizes {
			points = append(points, Point{n, fixed + int64(n)*slope})
		}
		line, err := FitLine(points)
		if slope == 0 && err != nil {
			return // rounding may tilt a level line downwards
		}
		require.NoError(t, err)
		require.Less(t, line.Residual, 1e-6)
		for _, p := range points {
			require.InEpsilon(t, p.Bytes, line.At(p.Batch), 1e-6)
		}
	})
}

func TestFitLineTellsHowFarPointsLieOff(t *testing.T) {
	line, err := FitLine([]Point{{1, 1000}, {2, 1900}, {3, 3000}})
	require.NoError(t, err)
	require.InDelta(t, 1000, line.PerSample, 1e-6)
	require.InDelta(t, 66.7/1900, line.Residual, 1e-4)
}

func TestFitLineRefuses(t *testing.T) {
	for want, points := range map[string][]Point{
		"0 batch sizes were measured, but a line needs 2":                                         nil,
		"1 batch sizes were measured, but a line needs 2":                                         {{4, 100}, {4, 110}},
		"a peak of 0 bytes with a batch of 8 was not measured":                                    {{4, 100}, {8, 0}},
		"memory falls by 25 bytes per sample as the batch grows: the batch does not determine it": {{4, 200}, {8, 100}},
	} {
		_, err := FitLine(points)
		require.EqualError(t, err, want)
	}
}
