package sample

import (
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
)

// KeepExtremes chooses at most points indices, ascending, of equally long series with a common x, so that a drawing of
// these points shows all extremes. It divides x into buckets of equal width. Of each bucket it keeps the lowest and
// highest finite value of every series, and it always keeps the first and the last index. points determines the width
// of the buckets. If the extremes of a single bucket exceed points, it returns more than points indices, so that no
// extreme is lost. With points below 1 it keeps all indices.
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

// keepOf marks the indices kept with a number of buckets, and returns their count.
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

// extremes returns the indices of the lowest and the highest finite value, or -1 if there is none.
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
