package stats

import (
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// PaceWindow is how many rounds the pace and the time left are taken from.
const PaceWindow = 20

// paceOutlier is how many times the median a round may take and still count for the pace: what is longer was a clock
// that was set, or a machine that slept.
const paceOutlier = 10

// Pace returns seconds a round, wall time: the mean over the last PaceWindow full rounds of the newest attempt that has
// one. A round is full where every node ended the round before it in the same attempt: otherwise nodes were still
// loading. Durations below 0 and those above ten times the median don't count. It is NaN where no attempt has a full
// round. Rounds are in their order.
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

// attemptAt returns the index of the attempt in which a time lies, 0 where there is none.
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

// ETA returns the seconds until the last round at a pace: remaining rounds times pace, less what the running round has
// used, at most one round. It is never negative, and NaN where the pace isn't known.
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
