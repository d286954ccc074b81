package stats

import (
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// seenSlack bounds, in seconds, how far a running run's time may advance past the newest heartbeat: twice the interval
// between heartbeats. A run counts time monotonically, but the reader's host clock may have been changed since the run
// began.
const seenSlack = 10

// Elapsed returns the active seconds of a run until a time, in Unix seconds: the sum over its attempts, without the
// pauses between them. An attempt without an end counts until its last heartbeat.
func Elapsed(attempts []store.Attempt, until float64) float64 {
	sum := 0.0
	for _, a := range attempts {
		sum += max(0, min(a.ActiveSeconds(), until-a.Started))
	}
	return sum
}

// untilNow returns a running run's attempts with the newest one extended to now, by at most seenSlack. The second
// result is the end of that attempt.
func untilNow(attempts []store.Attempt, now float64) ([]store.Attempt, float64) {
	if len(attempts) == 0 {
		return attempts, now
	}
	attempts = slices.Clone(attempts)
	newest := &attempts[len(attempts)-1]
	newest.Seen += min(max(0, now-newest.Seen), seenSlack)
	return attempts, newest.Seen
}

// lastSeen returns the time of the newest sign of life of a run without an end, in Unix seconds.
func lastSeen(s store.Snapshot) float64 {
	last := s.Run.Resumed
	for _, a := range s.Attempts {
		last = max(last, a.Seen)
	}
	for _, n := range s.Nodes {
		if n.Worker == "" { // events of other hosts carry those hosts' clocks
			last = max(last, n.LastEvent)
		}
	}
	return last
}
