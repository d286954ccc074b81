package store

import "github.com/sapo-swarm/swarm/metrics/event"

// There tells whether the swarm counts on the node: it hasn't given up, and if it is another host's, it is neither away
// nor has it left or stopped.
func (n Node) There() bool {
	return n.State != event.StateGivenUp && n.Absent == "" && (n.Worker == "" || n.State != event.StateStopped)
}

// Shown is the node's state as people see it: of another host's node that isn't done, whether it is there comes first.
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

// Position is the number of the round that the node does next: rounds before it are done, or are none of its.
func (n Node) Position() int { return max(n.LastRound+1, n.From) }

// RoundsDone returns how many rounds of a run are done by every node that is there; where none is, how many the last of
// them did.
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
