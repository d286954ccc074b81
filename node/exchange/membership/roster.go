package membership

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// How far a worker's node may be from the swarm's round for the barrier to wait for it. A node that has just shared a
// round is one behind those that work on the next. Waiting for a node that is further ahead is useless: its batch of
// the round is there or will never be. A newcomer begins two rounds ahead.
const (
	maxBehind = 1
	maxAhead  = 2
)

// lineup holds the swarm's members and decides for which of them the barrier waits. It is pure: its only clock is now,
// and it does no I/O. It is not safe for concurrent use.
type lineup struct {
	barrier     bool // nodes wait for each other
	offers      bool // workers' batches pass through the coordinator
	rounds      int  // of the experiment
	lag         int  // external_lag: at the barrier of a round, nodes wait for batches from this many rounds earlier
	now         time.Time
	version     int64
	trust       trust
	own         bool // there are nodes on the coordinator's host
	newest      int  // the swarm's round, which never decreases
	assignments []*assignment
	byNode      map[string]*assignment // by node in lower case, because folder names may ignore case
	list        []protocol.Member      // cached result of members; nil: to be built
	changes     []change
}

// assignment is one node's place in the swarm, and its state.
type assignment struct {
	protocol.Member
	worker   string
	round    int // current round; at least From
	offered  int // newest round that it shared; -1: none
	best     int // newest round that it ever worked on
	observed bool
	state    event.State
	silent   bool
	gone     string // why it is not a member; empty: it is one
	cause    string // cause of gone
	brings   string // model and device

	gaps     map[int]bool // rounds that it skipped, because it shared a later one
	streak   int          // rounds shared since it joined, or since the last failed wait for it
	catching bool         // it has shared its first round, and the barrier waits for it until it has caught up
	since    int          // from this round on, the barrier may wait for it
	present  time.Time    // when the barrier began to wait for it
	counts   bool         // its round counts for the swarm's round
	away     bool         // it was reported as absent
}

// change is a change of a worker's node to report.
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
			return nil, fmt.Errorf("two nodes are named %s", m.Node)
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

// find returns the assignment of a node, even one that has left, or nil if the name was never used.
func (l *lineup) find(node string) *assignment { return l.byNode[strings.ToLower(node)] }

// first returns the first round of a node that joins now.
func (l *lineup) first(after int) int { return max(l.newest+2, after+1) }

// join makes a node a member, possibly again. from is its first round, round its current one, and brings describes its
// model and device.
func (l *lineup) join(node, worker string, from, round int, brings string) *assignment {
	s := l.find(node)
	if s == nil {
		s = &assignment{Member: protocol.Member{Node: node}, offered: -1}
		l.put(s)
	} else {
		l.depart(s) // others now wait for its next process
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
	l.judge(s) // a node without progress moves no other node
	return s
}

// leave ends a node's membership. The node may join again.
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

// progress records a node's round and state. The round of a node on the coordinator's host never decreases. A worker's
// node may return to a checkpoint.
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

// pause records that a node is returning to its previous round. Until then the barrier doesn't wait for it.
func (l *lineup) pause(s *assignment, state event.State) {
	if s.state == state || s.gone != "" {
		return
	}
	l.depart(s)
	s.state = state
	l.judge(s)
}

// share records that a node's rollouts of a round have arrived.
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
		l.judge(s) // because of the batch that it shared
	} else {
		l.look()
	}
}

// silence records whether a worker of these nodes is silent.
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

// look updates the swarm's round and judges every node by it.
func (l *lineup) look() {
	l.advance()
	for _, s := range l.assignments {
		l.judge(s)
	}
}

// effective returns the round that a node is trusted to work on: its reported round, but at most the one after the
// newest that it shared.
func (l *lineup) effective(s *assignment) int {
	if !l.offers || s.worker == "" {
		return s.round
	}
	return min(s.round, max(s.offered+1, s.From))
}

// advance updates the swarm's round. It is the newest round of the coordinator's own nodes, which are trusted. Without
// own nodes, it is the newest round that more than half of the workers have reached.
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

// reached reports whether more than half of the workers have reached a round. It counts workers for which the barrier
// waits or that are ahead. Of these it counts only those that have shared at least half as many rounds as any other, so
// that newcomers don't lead. If there are none, every worker that has shared a round counts. Without a barrier a
// minority may share far more rounds than the others, so that it alone would count. There the bound is half of what the
// worker in the middle has shared.
func (l *lineup) reached(round int) bool {
	for _, all := range []bool{false, true} {
		streaks := map[string]int{} // of each worker: the most rounds that one of its nodes has shared
		for _, s := range l.assignments {
			if l.leads(s, all) {
				streaks[s.worker] = max(streaks[s.worker], s.streak)
			}
		}
		if len(streaks) == 0 {
			continue
		}
		sorted := slices.Sorted(maps.Values(streaks))
		bound := sorted[len(sorted)-1]
		if !l.barrier {
			bound = sorted[(len(sorted)-1)/2]
		}
		workers := map[string]bool{} // whether each worker has reached the round
		for _, s := range l.assignments {
			if l.leads(s, all) && (!l.offers || 2*s.streak >= bound) {
				workers[s.worker] = workers[s.worker] || l.effective(s) >= round
			}
		}
		there := 0
		for _, is := range workers {
			if is {
				there++
			}
		}
		return 2*there > len(workers)
	}
	return false
}

// leads reports whether a worker's node counts for the swarm's round.
func (l *lineup) leads(s *assignment, all bool) bool {
	return s.worker != "" && s.gone == "" && !s.silent && s.observed && (all || s.counts) && (!l.offers || s.offered >= s.From)
}

// judge decides whether the barrier waits for a worker's node.
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
	// A node that has just joined or is loading is where it belongs, so it is not reported as away.
	if away := absent && why != nothingYet && why != onItsWay; away != s.away {
		s.away = away
		l.changes = append(l.changes, change{assignment: s, absent: away, back: !away, why: why})
	}
}

const (
	nothingYet = "it has shared nothing yet"
	onItsWay   = "it is returning to its earlier round"
)

// missing returns why the barrier doesn't wait for a worker's node, empty if it does. If ahead is true, the node is not
// behind, so it still waits for others. If counts is true, its round counts for the swarm's round.
func (l *lineup) missing(s *assignment) (why string, ahead, counts bool) {
	round := l.effective(s)
	behind := round < l.newest-maxBehind
	switch {
	case s.silent:
		return "its worker is silent", false, false
	case !l.barrier:
		return "", false, true
	case s.round > l.newest+maxAhead:
		return fmt.Sprintf("it is already in round %d, the swarm in %d", s.round, l.newest), true, true
	case l.offers && s.offered < s.From:
		return nothingYet, !behind, false
	case l.offers && underway(s.state):
		return onItsWay, !behind, false
	case l.offers && s.streak < l.trust.needs(s):
		return fmt.Sprintf("it missed a deadline: the swarm waits for it again when it has shared %s", units.Plural(l.trust.needs(s), "round")), !behind, false
	case behind && !s.catching:
		return fmt.Sprintf("it is in round %d, the swarm in %d: the swarm waits for it again when it has caught up", round, l.newest), false, false
	}
	return "", false, true
}

// members returns the current members in the order in which they joined. The slice is never modified.
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

// unreported returns the changes to report, in order, and clears them.
func (l *lineup) unreported() []change {
	changes := l.changes
	l.changes = nil
	return changes
}
