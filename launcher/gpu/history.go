package gpu

import (
	"cmp"
	"slices"
)

// historyPoints bounds the length of a History. A full History halves its resolution.
const historyPoints = 480

// History is the memory in use on one device over a session, in bytes. It thins points by keeping the higher of two
// neighbors. The zero value is empty.
type History struct {
	times, values []float64
	each          int // samples per point
	pending       int // samples in the last point
}

// Add records the used bytes at a time in Unix seconds. Times must not decrease.
func (h *History) Add(time float64, used int64) {
	h.each = max(1, h.each)
	last := len(h.values) - 1
	if h.pending > 0 && h.pending < h.each {
		h.values[last] = max(h.values[last], float64(used))
		h.pending++
		return
	}
	if len(h.values) == historyPoints {
		for i := range historyPoints / 2 {
			h.times[i] = h.times[2*i]
			h.values[i] = max(h.values[2*i], h.values[2*i+1])
		}
		h.times, h.values = h.times[:historyPoints/2], h.values[:historyPoints/2]
		h.each *= 2
	}
	h.times, h.values = append(h.times, time), append(h.values, float64(used))
	h.pending = 1
}

// Values returns the memory in use, oldest first.
func (h *History) Values() []float64 { return h.values }

// Span returns the seconds between the first point and the last.
func (h *History) Span() float64 {
	if len(h.times) == 0 {
		return 0
	}
	return h.times[len(h.times)-1] - h.times[0]
}

// slopeBuckets bounds the number of points that Slope compares.
const slopeBuckets = 48

// Slope returns the growth of the memory in use, in bytes per second. It reduces the points to the maxima of at most
// 48 stretches, and returns the median slope between all pairs of maxima (Theil-Sen estimator). Recurring phases then
// have no effect.
func (h *History) Slope() float64 {
	stretch := (len(h.values) + slopeBuckets - 1) / slopeBuckets
	var times, highs []float64
	for from := 0; from < len(h.values); from += stretch {
		to := min(from+stretch, len(h.values))
		times = append(times, h.times[from])
		highs = append(highs, slices.Max(h.values[from:to]))
	}
	var slopes []float64
	for i := range times {
		for j := range i {
			if dt := times[i] - times[j]; dt > 0 {
				slopes = append(slopes, (highs[i]-highs[j])/dt)
			}
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	slices.SortFunc(slopes, cmp.Compare)
	return (slopes[(len(slopes)-1)/2] + slopes[len(slopes)/2]) / 2
}
