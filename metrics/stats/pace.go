package stats

import "math"

// PaceWindow is how many rounds the pace and the time left are taken from.
const PaceWindow = 20

// Pace returns seconds a round, wall time: the mean distance between the ends of the last PaceWindow+1 rounds. NaN: fewer than two.
func Pace(ends []float64) float64 {
	ends = ends[max(0, len(ends)-PaceWindow-1):]
	if len(ends) < 2 {
		return math.NaN()
	}
	return max(0, ends[len(ends)-1]-ends[0]) / float64(len(ends)-1)
}

// ETA returns the seconds until the last round at the present pace: remaining rounds times pace, less what the running round
// has used, at most one round. NaN where the pace isn't known.
func ETA(ends []float64, remaining int, now float64) float64 {
	if remaining <= 0 {
		return 0
	}
	pace := Pace(ends)
	if !finite(pace) {
		return pace
	}
	used := min(max(0, now-ends[len(ends)-1]), pace)
	return float64(remaining)*pace - used
}
