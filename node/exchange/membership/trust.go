package membership

import (
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Nobody knows beforehand who will share its rollouts, and the others wait at the barrier for each member that doesn't,
// up to its deadline. So a worker's node is waited for once it has shared a round, and each wait in vain makes the next
// one dearer: its node, and all others that came with the same invitation, must have shared vainFactor times as many
// rounds as before until somebody waits for them. With that the waits in vain of all who hold one invitation grow with
// the logarithm of the rounds, however many workers they make of it and whatever they do in turn.
const vainFactor = 8

// A node that is waited for and falls silent, leaves or loads again has been waited for in vain, too, where that took
// longer than briefWait. Otherwise that counts for its worker alone: a laptop that is closed harms nobody else.
const (
	briefWait   = SilentAfter + 5*time.Second
	briefFactor = 4
)

// maxNeed is more rounds than a run has.
const maxNeed = 1 << 30

// trust is how many rounds the nodes of an invitation and of a worker must have shared to be waited for.
type trust struct {
	deadline    time.Duration     // of the barrier
	waiting     time.Time         // since when somebody waits at the barrier of the swarm's round; zero: nobody does yet
	invitations map[string]string // by worker
	ofAll       map[string]int    // by invitation, or by worker where it has none
	ofOne       map[string]int    // by worker
	charged     map[string]int    // by invitation: the swarm's round when it was last waited for in vain
}

func newTrust(deadline time.Duration) trust {
	return trust{deadline: deadline, invitations: map[string]string{}, ofAll: map[string]int{}, ofOne: map[string]int{}, charged: map[string]int{}}
}

// group is whose waits in vain count for a node.
func (t *trust) group(s *assignment) string {
	if invitation := t.invitations[s.worker]; invitation != "" {
		return "invitation " + invitation
	}
	return "worker " + s.worker
}

// needs is how many rounds a node must have shared to be waited for.
func (t *trust) needs(s *assignment) int { return max(1, t.ofAll[t.group(s)], t.ofOne[s.worker]) }

// underway tells the states of a node that is not yet where it was.
func underway(state event.State) bool {
	switch state {
	case event.StateStarting, event.StateLoading, event.StateReplaying:
		return true
	}
	return false
}

// awaits notes that a node waits at the barrier of a round, or will soon.
func (l *lineup) awaits(round int) {
	if round >= l.newest && l.trust.waiting.IsZero() {
		l.trust.waiting = l.now
	}
}

// owes tells whether others wait for what the node has not shared, at the barrier of the swarm's round.
func (l *lineup) owes(s *assignment) bool {
	round := l.newest - l.lag
	return l.offers && l.barrier && s.worker != "" && s.gone == "" && !s.Absent && (s.offered < round || s.gaps[round]) && s.From <= round
}

// waited is for how long others have waited for a node at the barrier of the swarm's round.
func (l *lineup) waited(s *assignment) time.Duration {
	switch {
	case l.trust.waiting.IsZero():
		return 0
	case s.present.After(l.trust.waiting):
		return l.now.Sub(s.present)
	}
	return l.now.Sub(l.trust.waiting)
}

// passed takes the swarm one round on. Who still owes the round that is over was waited for in vain.
func (l *lineup) passed() {
	for _, s := range l.assignments {
		if l.owes(s) && (s.since <= l.newest || l.waited(s) > briefWait) {
			l.vain(s)
		}
		delete(s.gaps, l.newest-l.lag)
	}
	l.newest++
	l.trust.waiting = time.Time{}
}

// depart notes that a node will not be waited for from now on, for its own reasons.
func (l *lineup) depart(s *assignment) {
	if !l.owes(s) || s.silent {
		return
	}
	if l.waited(s) > briefWait {
		l.vain(s)
		return
	}
	l.trust.ofOne[s.worker] = min(maxNeed, max(1, l.trust.ofOne[s.worker])*briefFactor)
	s.streak, s.catching = 0, false
}

// vain notes that a node was waited for in vain. All that are waited for in vain at once count once.
func (l *lineup) vain(s *assignment) {
	s.streak, s.catching = 0, false
	group := l.trust.group(s)
	if at, ok := l.trust.charged[group]; ok && at == l.newest {
		return
	}
	l.trust.charged[group] = l.newest
	l.trust.ofAll[group] = min(maxNeed, max(1, l.trust.ofAll[group])*vainFactor)
}

// overdue finds the nodes that have been waited for longer than a barrier waits: the swarm's round is not theirs to
// hold.
func (l *lineup) overdue() {
	late := l.trust.deadline + l.trust.deadline/2
	if l.trust.deadline <= 0 || l.trust.waiting.IsZero() || l.now.Sub(l.trust.waiting) <= late {
		return
	}
	found := false
	for _, s := range l.assignments {
		if l.owes(s) && l.now.Sub(s.present) > late {
			l.vain(s)
			found = true
		}
	}
	if found {
		l.look()
	}
}
