package membership

import (
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// vainFactor is the cost of a failed wait. The barrier can't know who will share, and waits for each missing member up
// to its deadline. So it waits for a worker's node only after the node has shared a round. Each failed wait multiplies
// that requirement by vainFactor, for the node and for all others of its invitation. So the failed waits of one
// invitation grow only with the logarithm of the rounds, whatever its holders do and however many workers they create.
const vainFactor = 8

// A member that falls silent, leaves or loads again also causes a failed wait, if others waited longer than briefWait.
// Otherwise only its worker's requirement grows, by briefFactor: a closed laptop affects no one else.
const (
	briefWait   = SilentAfter + 5*time.Second
	briefFactor = 4
)

// maxNeed is more rounds than a run has.
const maxNeed = 1 << 30

// trust holds how many rounds the nodes of an invitation and of a worker must share before the barrier waits for them.
type trust struct {
	deadline    time.Duration     // of the barrier
	waiting     time.Time         // when nodes began to wait at the barrier of the swarm's round; zero: none waits
	invitations map[string]string // by worker
	ofAll       map[string]int    // by invitation, or by worker if it has none
	ofOne       map[string]int    // by worker
	charged     map[string]int    // by invitation: the swarm's round at its last failed wait
}

func newTrust(deadline time.Duration) trust {
	return trust{deadline: deadline, invitations: map[string]string{}, ofAll: map[string]int{}, ofOne: map[string]int{}, charged: map[string]int{}}
}

// group returns the key under which a node's failed waits are counted.
func (t *trust) group(s *assignment) string {
	if invitation := t.invitations[s.worker]; invitation != "" {
		return "invitation " + invitation
	}
	return "worker " + s.worker
}

// needs returns how many rounds a node must share before the barrier waits for it.
func (t *trust) needs(s *assignment) int { return max(1, t.ofAll[t.group(s)], t.ofOne[s.worker]) }

// underway reports whether a node in this state is still returning to its previous round.
func underway(state event.State) bool {
	switch state {
	case event.StateStarting, event.StateLoading, event.StateReplaying:
		return true
	}
	return false
}

// awaits records that a node waits at the barrier of a round, or will soon.
func (l *lineup) awaits(round int) {
	if round >= l.newest && l.trust.waiting.IsZero() {
		l.trust.waiting = l.now
	}
}

// owes reports whether others wait for the node's batch at the barrier of the swarm's round.
func (l *lineup) owes(s *assignment) bool {
	round := l.newest - l.lag
	return l.offers && l.barrier && s.worker != "" && s.gone == "" && !s.Absent && (s.offered < round || s.gaps[round]) && s.From <= round
}

// waited returns how long others have waited for a node at the barrier of the swarm's round.
func (l *lineup) waited(s *assignment) time.Duration {
	switch {
	case l.trust.waiting.IsZero():
		return 0
	case s.present.After(l.trust.waiting):
		return l.now.Sub(s.present)
	}
	return l.now.Sub(l.trust.waiting)
}

// passed advances the swarm by one round. Nodes that still owe a batch of the past round caused a failed wait.
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

// depart records that the barrier stops waiting for a node, for the node's own reasons.
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

// vain records a failed wait for a node. Failed waits of one group in the same round count once.
func (l *lineup) vain(s *assignment) {
	s.streak, s.catching = 0, false
	group := l.trust.group(s)
	if at, ok := l.trust.charged[group]; ok && at == l.newest {
		return
	}
	l.trust.charged[group] = l.newest
	l.trust.ofAll[group] = min(maxNeed, max(1, l.trust.ofAll[group])*vainFactor)
}

// overdue finds nodes for which others have waited longer than a barrier's deadline, so that they don't hold back the
// swarm's round.
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
