package stats

import (
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// PaceWindow is the number of rounds from which pace and remaining time are estimated.
const PaceWindow = 20

// paceOutlier bounds the duration of a round that counts for the pace, as a multiple of the median. Longer rounds come
// from a changed clock or a suspended machine.
const paceOutlier = 10

// Pace returns wall seconds per round: the mean over the last PaceWindow full rounds of the newest attempt that has
// any. A round is full if every node ended the previous round in the same attempt; otherwise nodes were still loading.
// Durations below 0 or above paceOutlier times the median do not count. It is NaN if no attempt has a full round.
// Rounds must be in order.
func Pace(rounds []SwarmRound, attempts []store.Attempt) float64 {
	full := make([][]float64, max(1, len(attempts)))
	for i := 1; i < len(rounds); i++ {
		at := attemptAt(rounds[i].End, attempts)
		if d := rounds[i].End - rounds[i-1].End; d >= 0 && at == attemptAt(rounds[i-1].FirstEnd, attempts) {
			full[at] = append(full[at], d)
		}
	}
	for _, ds := range slices.Backward(full) {
		if len(ds) > 0 {
			return meanDuration(ds[max(0, len(ds)-PaceWindow):])
		}
	}
	return math.NaN()
}

// attemptAt returns the index of the attempt that contains a time, or 0 if none does.
func attemptAt(time float64, attempts []store.Attempt) int {
	in := 0
	for i, a := range attempts {
		if a.Started <= time {
			in = i
		}
	}
	return in
}

func meanDuration(ds []float64) float64 {
	sorted := slices.Sorted(slices.Values(ds))
	median := sorted[len(sorted)/2]
	kept := slices.DeleteFunc(slices.Clone(ds), func(d float64) bool { return median > 0 && d > paceOutlier*median })
	return sample.Mean(kept)
}

// ETA returns the seconds until the last round ends: remaining rounds times pace, less the used seconds of the current
// round, at most one round. It is never negative, and NaN if the pace is unknown.
func ETA(pace float64, remaining int, used float64) float64 {
	if remaining <= 0 {
		return 0
	}
	if !units.Finite(pace) {
		return math.NaN()
	}
	if !units.Finite(used) {
		used = 0
	}
	return float64(remaining)*pace - min(max(0, used), pace)
}
