package profile

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Line is a phase's memory beyond resident: Base + sequences × PerSequence bytes. It lies on or above every point that
// was measured.
type Line struct {
	Base        int64 `json:"base_bytes"`
	PerSequence int64 `json:"per_sequence_bytes"`
}

// At is the line's value for so many sequences at a time.
func (l Line) At(sequences int) int64 { return l.Base + int64(sequences)*l.PerSequence }

// fitLine takes the slope of least squares, not below 0, and the least base that leaves no point above the line. One
// size alone gives the line through zero: nobody knows what more sequences would take.
func fitLine(points []Point, phase string) Line {
	var xs, ys []float64
	for _, p := range points {
		if p.Phase == phase && p.Fits {
			xs, ys = append(xs, float64(p.Sequences)), append(ys, float64(p.Bytes))
		}
	}
	if len(xs) == 0 {
		return Line{}
	}
	slope := math.Ceil(slices.Max(ys) / xs[0])
	if slices.Min(xs) < slices.Max(xs) {
		_, slope = stat.LinearRegression(xs, ys, nil, false)
		slope = max(0, math.Ceil(slope))
	}
	base := 0.0
	for i := range xs {
		base = max(base, ys[i]-slope*xs[i])
	}
	return Line{Base: int64(math.Ceil(base)), PerSequence: int64(slope)}
}
