package membership

import (
	"fmt"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// How far from the swarm's round a worker's node may be and still be waited for, at a barrier. A node that has shared a
// round is one behind those that work on the next. Nobody need wait for one that is ahead: what it shared of a round is
// there, or never will be. A newcomer begins two rounds ahead.
const (
	maxBehind = 1
	maxAhead  = 2
)

// lineup is the swarm's members: who takes part from when, who is waited for. It is pure: no clock but now, no I/O, not
// safe for concurrent use.
type lineup struct {
	barrier     bool // nodes wait for each other
	offers      bool // workers' batches pass through here
	rounds      int  // of the experiment
	lag         int  // external_lag: at the barrier of a round, nodes wait for what was shared so many rounds before
	now         time.Time
	version     int64
	trust       trust
	own         bool // there are nodes of the coordinator's own host
	newest      int  // the round that the swarm works on: never falls
	assignments []*assignment
	byNode      map[string]*assignment // by node in lower case: a folder may not tell cases apart
	list        []protocol.Member      // what members returns; nil: to be made
	changes     []change
}

// assignment is one node's place in the swarm, and its state.
type assignment struct {
	protocol.Member
	worker   string
	round    int // that it works on; From at least
	offered  int // newest round that it shared; -1: none
	best     int // newest round it ever worked on
	observed bool
	state    event.State
	silent   bool
	gone     string // why it is no member now; empty: it is one
	cause    string // of gone
	brings   string // model and device

	gaps     map[int]bool // rounds that it passed over: it shared a later one
	streak   int          // rounds that it shared since it joined, or was last waited for in vain
	catching bool         // it has shared its first round, and is waited for until it has caught up
	since    int          // the first round whose barrier may wait for it
	present  time.Time    // since when it is waited for
	counts   bool         // where it is tells where the swarm is
	away     bool         // it was told of as absent
}

// change is what somebody should be told of a worker's node.
type change struct {
	assignment *assignment
	absent     bool
	back       bool // it was absent
	why        string
}

func newLineup(local []protocol.Member, rounds int, barrier bool, version int64) (*lineup, error) {
	l := &lineup{barrier: barrier, rounds: rounds, version: version, byNode: map[string]*assignment{}, trust: newTrust(0)}
	for _, m := range local {
		if l.find(m.Node) != nil {
			return nil, fmt.Errorf("two nodes are called %s", m.Node)
		}
		l.put(&assignment{Member: m, round: m.From, offered: -1, observed: true})
	}
	return l, nil
}

func (l *lineup) put(s *assignment) {
	l.assignments = append(l.assignments, s)
	l.byNode[strings.ToLower(s.Node)] = s
	l.list = nil
}

// find returns the node's, also of one that has gone; nil: nobody was ever called that.
func (l *lineup) find(node string) *assignment { return l.byNode[strings.ToLower(node)] }

// first is the round that a node which joins now begins with.
func (l *lineup) first(after int) int { return max(l.newest+2, after+1) }

// join makes the node a member from a round on, or again one. round is what it works on, brings says its model and
// device.
func (l *lineup) join(node, worker string, from, round int, brings string) *assignment {
	s := l.find(node)
	if s == nil {
		s = &assignment{Member: protocol.Member{Node: node}, offered: -1}
		l.put(s)
	} else {
		l.depart(s) // whoever waits for it waits for its next process now
	}
	if from != s.From {
		s.offered = min(s.offered, from-1)
	}
	s.worker, s.brings, s.From, s.round, s.state = worker, brings, from, l.clamp(max(from, round)), event.StateQueued
	s.observed, s.silent, s.gone, s.cause, s.Absent, s.Ahead, s.away = false, false, "", "", false, false, false
	if s.offered < s.From {
		s.streak, s.gaps = 0, nil
	}
	s.since, s.present, s.catching = l.newest+1, l.now, false
	l.changed()
	l.changes = append(l.changes, change{assignment: s})
	l.judge(s) // one that has not worked yet moves nobody else
	return s
}

// leave ends a node's membership; it may join again.
func (l *lineup) leave(s *assignment, cause, why string) {
	if s.gone != "" {
		return
	}
	l.depart(s)
	s.gone, s.cause = why, cause
	l.changed()
	if s.worker != "" {
		l.changes = append(l.changes, change{assignment: s, absent: true, why: why})
	}
	l.look()
}

// progress says where a node is. A node of the coordinator's own host never goes back; a worker's does that comes back
// from a checkpoint.
func (l *lineup) progress(s *assignment, round int, state event.State) (moved bool) {
	round = l.clamp(max(round, s.From, s.offered))
	if s.worker == "" {
		round = max(round, s.round)
	}
	moved = round != s.round || state != s.state || !s.observed
	if !moved || s.gone != "" {
		return false
	}
	before := s.round
	s.round, s.state, s.observed = round, state, true
	if round > l.newest && (s.worker == "" || !l.own) {
		l.look()
	} else if round != before {
		l.judge(s)
	}
	return true
}

// pause says that the node is on its way to where it was: nobody waits for it meanwhile.
func (l *lineup) pause(s *assignment, state event.State) {
	if s.state == state || s.gone != "" {
		return
	}
	l.depart(s)
	s.state = state
	l.judge(s)
}

// share notes that the node's rollouts of a round are there.
func (l *lineup) share(s *assignment, round int) {
	delete(s.gaps, round)
	if round > s.offered {
		for skipped := max(s.offered+1, s.From, l.newest-l.lag); skipped < round; skipped++ {
			if s.gaps == nil {
				s.gaps = map[int]bool{}
			}
			s.gaps[skipped] = true
		}
		s.catching = l.offers && (s.catching || s.offered < s.From)
		s.streak++
	}
	s.offered = max(s.offered, round)
	l.awaits(round)
	l.progress(s, max(s.round, round), s.state)
	if l.own {
		l.judge(s) // for what it has shared
	} else {
		l.look()
	}
}

// silence says whether anything is heard of a worker.
func (l *lineup) silence(assignments []*assignment, silent bool) {
	for _, s := range assignments {
		if silent {
			l.depart(s)
		}
		s.silent = silent
	}
	l.look()
}

func (l *lineup) clamp(round int) int { return max(0, min(round, l.rounds)) }

func (l *lineup) changed() {
	l.version++
	l.list = nil
}

// look finds the swarm's round anew and judges everybody by it.
func (l *lineup) look() {
	l.advance()
	for _, s := range l.assignments {
		l.judge(s)
	}
}

// effective is the round that a node works on as far as that is known: a claim is believed up to the round after the
// newest that it shared.
func (l *lineup) effective(s *assignment) int {
	if !l.offers || s.worker == "" {
		return s.round
	}
	return min(s.round, max(s.offered+1, s.From))
}

// advance finds the swarm's round: the newest of the coordinator's own nodes, whose word can be trusted, and where it
// has none the newest that more than half of the workers have got to.
func (l *lineup) advance() {
	l.own = false
	newest := l.newest
	for _, s := range l.assignments {
		if s.worker == "" && s.gone == "" && s.Trust == protocol.TrustStream {
			l.own, newest = true, max(newest, s.round)
		}
	}
	for l.newest < newest {
		l.passed()
	}
	for !l.own && l.newest < l.rounds && l.reached(l.newest+1) {
		l.passed()
	}
}

// reached tells whether more than half of the workers that are waited for, or are ahead, have got to a round: of those
// that have shared at least half as many rounds as any other, so that newcomers don't lead. Where nobody is waited for,
// all count that have shared something.
func (l *lineup) reached(round int) bool {
	for _, all := range []bool{false, true} {
		longest := 0
		for _, s := range l.assignments {
			if l.leads(s, all) {
				longest = max(longest, s.streak)
			}
		}
		workers := map[string]bool{} // whether it has got there
		for _, s := range l.assignments {
			if l.leads(s, all) && (!l.offers || 2*s.streak >= longest) {
				workers[s.worker] = workers[s.worker] || l.effective(s) >= round
			}
		}
		there := 0
		for _, is := range workers {
			if is {
				there++
			}
		}
		if len(workers) > 0 {
			return 2*there > len(workers)
		}
	}
	return false
}

// leads tells whether the swarm's round is where a worker's node is, and others.
func (l *lineup) leads(s *assignment, all bool) bool {
	return s.worker != "" && s.gone == "" && !s.silent && s.observed && (all || s.counts) && (!l.offers || s.offered >= s.From)
}

// judge decides whether a worker's node is waited for.
func (l *lineup) judge(s *assignment) {
	if s.worker == "" || s.gone != "" {
		return
	}
	why, ahead, counts := l.missing(s)
	absent := why != ""
	s.counts = counts
	if !absent && (s.Absent || s.present.IsZero()) {
		s.since, s.present = max(s.since, l.newest+1), l.now
	}
	if !absent && l.effective(s) >= l.newest-maxBehind {
		s.catching = false
	}
	if ahead != s.Ahead {
		s.Ahead = ahead
		l.changed()
	}
	if absent != s.Absent {
		s.Absent = absent
		l.changed()
	}
	// One that has only just come, or loads, is where it belongs: nobody is told that it is away.
	if away := absent && why != nothingYet && why != onItsWay; away != s.away {
		s.away = away
		l.changes = append(l.changes, change{assignment: s, absent: away, back: !away, why: why})
	}
}

const (
	nothingYet = "it has shared nothing yet"
	onItsWay   = "it is on its way to where it was"
)

// missing says why a worker's node is not waited for, empty: it is; whether it is not behind all the same, so that it
// waits for the others; and whether it counts where the swarm's round is looked for.
func (l *lineup) missing(s *assignment) (why string, ahead, counts bool) {
	round := l.effective(s)
	behind := round < l.newest-maxBehind
	switch {
	case s.silent:
		return "nothing is heard of its worker", false, false
	case !l.barrier:
		return "", false, true
	case s.round > l.newest+maxAhead:
		return fmt.Sprintf("it is in round %d already, the swarm in %d", s.round, l.newest), true, true
	case l.offers && s.offered < s.From:
		return nothingYet, !behind, false
	case l.offers && underway(s.state):
		return onItsWay, !behind, false
	case l.offers && s.streak < l.trust.needs(s):
		return fmt.Sprintf("it was waited for in vain: it is waited for again when it has shared %s", units.Plural(l.trust.needs(s), "round")), !behind, false
	case behind && !s.catching:
		return fmt.Sprintf("it is in round %d, the swarm in %d: it is waited for again when it has caught up", round, l.newest), false, false
	}
	return "", false, true
}

// members are all that belong to the swarm now, in the order they came. The slice is not changed later.
func (l *lineup) members() []protocol.Member {
	if l.list == nil {
		l.list = make([]protocol.Member, 0, len(l.assignments))
		for _, s := range l.assignments {
			if s.gone == "" {
				l.list = append(l.list, s.Member)
			}
		}
	}
	return l.list
}

// unreported hands over what there is to tell, in order.
func (l *lineup) unreported() []change {
	changes := l.changes
	l.changes = nil
	return changes
}
