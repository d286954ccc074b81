package workload

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
)

// Line is memory as a function of the batch size: Fixed + batch × PerSample bytes.
type Line struct {
	Fixed     float64 `json:"fixed_bytes"`
	PerSample float64 `json:"per_sample_bytes"`
	Residual  float64 `json:"residual"` // largest deviation of a point from the line, as a part of the point
}

// Point is a measured peak.
type Point struct {
	Batch int   `json:"batch_size"`
	Bytes int64 `json:"bytes"`
}

// At returns the line's value in bytes.
func (l Line) At(batch int) int64 { return int64(math.Round(l.Fixed + float64(batch)*l.PerSample)) }

// FitLine returns the least-squares line through measured peaks. It returns an error for fewer than two different
// batch sizes, and for memory that falls with the batch, because neither predicts other sizes.
func FitLine(points []Point) (Line, error) {
	var xs, ys []float64
	sizes := map[int]bool{}
	for _, p := range points {
		if p.Batch < 1 || p.Bytes < 1 {
			return Line{}, fmt.Errorf("a peak of %d bytes with a batch of %d was not measured", p.Bytes, p.Batch)
		}
		xs, ys = append(xs, float64(p.Batch)), append(ys, float64(p.Bytes))
		sizes[p.Batch] = true
	}
	if len(sizes) < 2 {
		return Line{}, fmt.Errorf("%d batch sizes were measured, but a line needs 2", len(sizes))
	}
	fixed, slope := stat.LinearRegression(xs, ys, nil, false)
	if slope < 0 {
		return Line{}, fmt.Errorf("memory falls by %.0f bytes per sample as the batch grows: the batch does not determine it", -slope)
	}
	line := Line{Fixed: fixed, PerSample: slope}
	for i := range xs {
		line.Residual = max(line.Residual, math.Abs(fixed+slope*xs[i]-ys[i])/ys[i])
	}
	return line, nil
}
