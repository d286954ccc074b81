package sample

import "slices"

// IQM returns the interquartile mean of xs: the mean without the lowest and the highest quarter. A quarter is rounded
// down, as in scipy.stats.trim_mean(xs, 0.25), which rliable uses (Agarwal et al. 2021). NaN without values.
func IQM(xs []float64) float64 {
	sorted := slices.Sorted(slices.Values(xs))
	cut := quarter(len(sorted))
	return Mean(sorted[cut : len(sorted)-cut])
}

// quarter returns how many of n values IQM leaves out at each end.
func quarter(n int) int { return n / 4 }

// resampledIQM returns IQM of a resample that contains sorted[i] counts[i] times.
func resampledIQM(sorted []float64, counts []uint16) float64 {
	below := quarter(len(sorted))
	kept := len(sorted) - 2*below
	sum, left := 0.0, kept
	for i, v := range sorted {
		n := int(counts[i])
		cut := min(n, below)
		below -= cut
		n = min(n-cut, left)
		left -= n
		sum += float64(n) * v
	}
	return sum / float64(kept)
}
