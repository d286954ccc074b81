package profile

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Line is a phase's memory beyond resident: Base + sequences × PerSequence bytes. No measured point lies above it.
type Line struct {
	Base        int64 `json:"base_bytes"`
	PerSequence int64 `json:"per_sequence_bytes"`
}

// At is the line's value at that number of sequences at a time.
func (l Line) At(sequences int) int64 { return l.Base + int64(sequences)*l.PerSequence }

// fitLine computes the least-squares slope, at least 0, and the smallest base that leaves no point above the line.
// With a single size the line goes through zero, because one point says nothing about more sequences.
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
