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
type Bootstrap struct{ drawn map[resampling][]uint16 }

// resampling identifies resamples by their number of values, and by the first or second side of a pair.
type resampling struct{ size, side int }

// counts returns how often each of size values is in each resample, one resample after the other. The two sides have
// independent resamples.
func (b *Bootstrap) counts(size, side int) []uint16 {
	key := resampling{size, side}
	if counts, ok := b.drawn[key]; ok {
		return counts
	}
	random := rand.New(rand.NewPCG(0xb007, uint64(side))) //nolint:gosec // a fixed seed: the same interval each time
	counts := make([]uint16, Resamples*size)
	for resample := range slices.Chunk(counts, size) {
		for range resample {
			resample[random.IntN(size)]++
		}
	}
	if b.drawn == nil {
		b.drawn = map[resampling][]uint16{}
	}
	b.drawn[key] = counts
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
	for counts := range slices.Chunk(b.counts(len(xs), 0), len(xs)) {
		values = append(values, resampledIQM(sorted, counts))
	}
	slices.Sort(values)
	return Quantile(values, lowShare), Quantile(values, highShare)
}

// Improvement returns the interval of ProbabilityOfImprovement. It is stratified: each side is resampled separately and
// keeps its size. NaN if a or b has fewer than two values.
func (b *Bootstrap) Improvement(x, y []float64) (low, high float64) {
	if b == nil || len(x) < 2 || len(y) < 2 {
		return math.NaN(), math.NaN()
	}
	x, y = slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y))
	below, upTo := make([]int, len(x)), make([]int, len(x)) // per value of x: values of y below it, and values of y not above it
	for i, v := range x {
		below[i], _ = slices.BinarySearch(y, v)
		for upTo[i] = below[i]; upTo[i] < len(y) && y[upTo[i]] == v; {
			upTo[i]++
		}
	}
	ofX, ofY := b.counts(len(x), 0), b.counts(len(y), 1)
	lowest := make([]int, len(y)+1)         // draws among so many lowest values of y
	times := make([]int, 2*len(x)*len(y)+1) // resamples by score
	for r := range Resamples {
		for i, n := range ofY[r*len(y) : (r+1)*len(y)] {
			lowest[i+1] = lowest[i] + int(n)
		}
		score := 0 // a win counts 2, a tie 1
		for i, n := range ofX[r*len(x) : (r+1)*len(x)] {
			score += int(n) * (lowest[below[i]] + lowest[upTo[i]])
		}
		times[score]++
	}
	most := float64(len(times) - 1)
	return quantileOfCounts(times, lowShare) / most, quantileOfCounts(times, highShare) / most
}

// quantileOfCounts returns Quantile of the numbers 0, 1, 2 and so on, of which number i occurs times[i] times.
func quantileOfCounts(times []int, q float64) float64 {
	total := 0
	for _, n := range times {
		total += n
	}
	at := q * float64(total-1)
	number := func(rank int) float64 {
		for i, n := range times {
			if rank -= n; rank < 0 {
				return float64(i)
			}
		}
		return float64(len(times) - 1)
	}
	low := int(at)
	return number(low) + (at-float64(low))*(number(low+1)-number(low))
}
