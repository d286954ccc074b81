package stats

import (
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
)

// KeepExtremes chooses at most points places, ascending, of equally long series with a common x, such that all may be
// drawn with those alone: it cuts x into buckets of equal width and keeps of each the place of every series' lowest and
// highest finite value, and the first and the last place of all. The number of points sets the width of the buckets.
// Where even one bucket takes more than points, it has what that one takes: an extreme is never lost. With points below
// 1, all places are kept.
func KeepExtremes(series [][]float64, points int) []int {
	n := 0
	if len(series) > 0 {
		n = len(series[0])
	}
	if points < 1 || n <= points {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all
	}
	kept := make([]bool, n)
	for buckets := max(1, points/2); ; buckets = max(1, buckets*4/5) {
		clear(kept)
		if count := keepOf(series, kept, buckets); count <= points || buckets == 1 {
			out := make([]int, 0, count)
			for i, k := range kept {
				if k {
					out = append(out, i)
				}
			}
			return out
		}
	}
}

// keepOf marks what so many buckets keep, and returns how many places that is.
func keepOf(series [][]float64, kept []bool, buckets int) int {
	n := len(kept)
	kept[0], kept[n-1] = true, true
	for b := range buckets {
		from, to := b*n/buckets, (b+1)*n/buckets
		for _, values := range series {
			low, high := extremes(values[from:to])
			if low >= 0 {
				kept[from+low], kept[from+high] = true, true
			}
		}
	}
	count := 0
	for _, k := range kept {
		if k {
			count++
		}
	}
	return count
}

// extremes returns where the lowest and the highest finite value are, -1 where there is none.
func extremes(values []float64) (low, high int) {
	low = slices.IndexFunc(values, units.Finite)
	high = low
	for i, v := range values {
		if !units.Finite(v) {
			continue
		}
		if v < values[low] {
			low = i
		}
		if v > values[high] {
			high = i
		}
	}
	return low, high
}
