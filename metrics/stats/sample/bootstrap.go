package sample

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Resamples is the number of resamples of a bootstrap.
const Resamples = 10_000

// Bootstrap computes percentile-bootstrap intervals at the level Confidence over Resamples resamples. It keeps the
// resamples and uses them for all samples of a size. A fixed seed makes its intervals reproducible, and the order of
// values does not matter. The zero value is ready to use, by one goroutine at a time. A nil Bootstrap computes nothing:
// its intervals are NaN.
type Bootstrap struct{ drawn map[int][]uint16 } // by size

// counts returns how often each of size values is in each resample, one resample after the other.
func (b *Bootstrap) counts(size int) []uint16 {
	if counts, ok := b.drawn[size]; ok {
		return counts
	}
	random := rand.New(rand.NewPCG(0xb007, 0)) //nolint:gosec // a fixed seed: the same interval each time
	counts := make([]uint16, Resamples*size)
	for resample := range slices.Chunk(counts, size) {
		for range resample {
			resample[random.IntN(size)]++
		}
	}
	if b.drawn == nil {
		b.drawn = map[int][]uint16{}
	}
	b.drawn[size] = counts
	return counts
}

// Bounds of the quantiles of an interval.
const (
	lowShare  = (1 - Confidence) / 2
	highShare = 1 - lowShare
)

// IQM returns the interval of the interquartile mean of xs; NaN for fewer than two values.
func (b *Bootstrap) IQM(xs []float64) (low, high float64) {
	if b == nil || len(xs) < 2 {
		return math.NaN(), math.NaN()
	}
	sorted, values := slices.Sorted(slices.Values(xs)), make([]float64, 0, Resamples)
	for counts := range slices.Chunk(b.counts(len(xs)), len(xs)) {
		values = append(values, resampledIQM(sorted, counts))
	}
	slices.Sort(values)
	return Quantile(values, lowShare), Quantile(values, highShare)
}
