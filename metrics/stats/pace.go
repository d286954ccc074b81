package stats

import (
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// PaceWindow is how many rounds the pace and the time left are taken from.
const PaceWindow = 20

// paceOutlier is how many times the median a round may take and still count for the pace: what is longer was a clock that was set, or
// a machine that slept.
const paceOutlier = 10

// Pace returns seconds a round, wall time: the mean distance between the ends of the last PaceWindow+1 rounds. Distances below 0 and
// those above ten times the median don't count. NaN: none is left.
func Pace(ends []float64) float64 {
	return meanDistance(distances(ends[max(0, len(ends)-PaceWindow-1):]))
}

func distances(ends []float64) []float64 {
	var out []float64
	for i := 1; i < len(ends); i++ {
		if d := ends[i] - ends[i-1]; d >= 0 {
			out = append(out, d)
		}
	}
	return out
}

func meanDistance(ds []float64) float64 {
	if len(ds) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(ds))
	median := sorted[len(sorted)/2]
	kept := slices.DeleteFunc(slices.Clone(ds), func(d float64) bool { return median > 0 && d > paceOutlier*median })
	return Mean(kept)
}

// runPace returns the pace of the newest attempt once it has done two rounds, else that of the attempts before it: what lies between two
// attempts is nobody's pace.
func runPace(ends []float64, attempts []store.Attempt) float64 {
	groups := byAttempt(ends, attempts)
	if newest := groups[len(groups)-1]; len(newest) >= 2 {
		return Pace(newest)
	}
	var ds []float64
	for _, g := range groups {
		ds = append(ds, distances(g)...)
	}
	return meanDistance(ds[max(0, len(ds)-PaceWindow):])
}

// byAttempt groups ends by the attempt in which they lie, in the order of the attempts; without attempts there is one group.
func byAttempt(ends []float64, attempts []store.Attempt) [][]float64 {
	groups := make([][]float64, max(1, len(attempts)))
	for _, end := range ends {
		in := 0
		for i, a := range attempts {
			if a.Started <= end {
				in = i
			}
		}
		groups[in] = append(groups[in], end)
	}
	return groups
}

// ETA returns the seconds until the last round at a pace: remaining rounds times pace, less what the running round has used, at
// most one round. It is never negative, and NaN where the pace isn't known.
func ETA(pace float64, remaining int, used float64) float64 {
	if remaining <= 0 {
		return 0
	}
	if !finite(pace) {
		return math.NaN()
	}
	if !finite(used) {
		used = 0
	}
	return float64(remaining)*pace - min(max(0, used), pace)
}
