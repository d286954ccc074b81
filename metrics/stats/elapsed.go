package stats

import (
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// seenSlack is how far, in seconds, the present of a running run may lie after it was last seen: twice what lies
// between two such notes. A run's times go on evenly; whoever asks has the host's clock, which may have been set since
// the run began.
const seenSlack = 10

// Elapsed returns the seconds for which coordinators worked on a run until a time, in Unix seconds: the sum over its
// attempts, without the pauses between them. An attempt without an end counts until it was last seen.
func Elapsed(attempts []store.Attempt, until float64) float64 {
	sum := 0.0
	for _, a := range attempts {
		sum += max(0, min(a.ActiveSeconds(), until-a.Started))
	}
	return sum
}

// untilNow returns a running run's attempts with the newest one seen now, as far as a clock can be trusted (seenSlack).
// The second value is that now.
func untilNow(attempts []store.Attempt, now float64) ([]store.Attempt, float64) {
	if len(attempts) == 0 {
		return attempts, now
	}
	attempts = slices.Clone(attempts)
	newest := &attempts[len(attempts)-1]
	newest.Seen += min(max(0, now-newest.Seen), seenSlack)
	return attempts, newest.Seen
}

// lastSeen returns when a run that has no end was last heard of, in Unix seconds.
func lastSeen(s store.Snapshot) float64 {
	last := s.Run.Resumed
	for _, a := range s.Attempts {
		last = max(last, a.Seen)
	}
	for _, n := range s.Nodes {
		if n.Worker == "" { // other hosts' events have their hosts' times
			last = max(last, n.LastEvent)
		}
	}
	return last
}
