package store

import "github.com/sapo-swarm/swarm/metrics/event"

// There reports whether the swarm counts on the node: it has not given up. Another host's node must also be present:
// not away, not left and not stopped.
func (n Node) There() bool {
	return n.State != event.StateGivenUp && n.Absent == "" && (n.Worker == "" || n.State != event.StateStopped)
}

// Shown returns the node's state for display. For another host's unfinished node, its absence takes precedence.
func (n Node) Shown() event.State {
	switch {
	case n.State == event.StateDone || n.State == event.StateGivenUp:
		return n.State
	case n.Absent == AbsentAway:
		return event.StateAway
	case n.Absent == AbsentLeft:
		return event.StateStopped
	}
	return n.State
}

// Position returns the number of the next round of the node. Earlier rounds are finished, or precede the node's first
// round.
func (n Node) Position() int { return max(n.LastRound+1, n.From) }

// RoundsDone returns the number of rounds of a run that every present node has finished. If no node is present, it is
// the highest number that any node finished.
func RoundsDone(nodes []Node) int {
	done, most := -1, 0
	for _, n := range nodes {
		most = max(most, n.LastRound+1)
		if n.There() && (done < 0 || n.Position() < done) {
			done = n.Position()
		}
	}
	if done < 0 {
		return most
	}
	return done
}
