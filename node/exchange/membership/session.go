package membership

import (
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

const (
	maxEverNodes = 4 * MaxNodes // nodes that a worker has ever brought
	maxOutboxes  = 4            // of a worker, whose acknowledgements are remembered here
	judged       = 50           // offers that a worker's standing rests on
	warnEvery    = time.Minute
)

// session is what the coordinator knows of a worker.
type session struct {
	worker, host, process, version, device string

	state       event.State // one of event.Worker*; empty: of an earlier attempt, not heard of yet
	observed    time.Time
	drift       drift
	rates       *rates
	assignments []*assignment // all it ever had in this run
	pending     int64         // events that it has not delivered, as it says
	invitation  string        // that it came with, as Registry.Invitation; empty: not known
	stored      quota

	offered, refused, bytes, dropped int64
	reason                           string // of the newest refusal, or of its end
	recent                           [judged]bool
	judgements                       int
	suspect                          bool

	acked    map[string]int64 // by outbox
	busy     chan struct{}    // held by the delivery that is under way
	warnings map[string]time.Time
}

// newSession is of a worker whose messages are under way for at most about slack.
func newSession(worker string, now time.Time, slack time.Duration) *session {
	return &session{
		worker: worker, observed: now, drift: newDrift(slack), rates: newRates(), acked: map[string]int64{},
		busy: make(chan struct{}, 1), warnings: map[string]time.Time{},
	}
}

// owns tells whether the node is this worker's.
func (s *session) owns(node string) *assignment {
	for _, assignment := range s.assignments {
		if assignment.Node == node {
			return assignment
		}
	}
	return nil
}

// present are the assignments that belong to the swarm now.
func (s *session) present() []*assignment {
	var list []*assignment
	for _, assignment := range s.assignments {
		if assignment.gone == "" {
			list = append(list, assignment)
		}
	}
	return list
}

// accept notes an offer that was taken.
func (s *session) accept(bytes int) {
	s.offered++
	s.bytes += int64(bytes)
	s.judge(false)
}

// refuse notes an offer that was not taken. It returns what to warn of when the worker has become one to be looked at.
func (s *session) refuse(reason string) string {
	s.offered++
	s.refused++
	s.reason = reason
	s.judge(true)
	bad := 0
	for _, r := range s.recent[:min(s.judgements, judged)] {
		if r {
			bad++
		}
	}
	switch {
	case bad > judged/2 && !s.suspect:
		s.suspect = true
		return fmt.Sprintf("of the newest %d offers of worker %s %d were refused, the last because: %s. Try: swarm workers ban %s",
			min(s.judgements, judged), s.worker, bad, reason, s.worker)
	case bad <= judged/4:
		s.suspect = false
	}
	return ""
}

func (s *session) judge(bad bool) {
	s.recent[s.judgements%judged] = bad
	s.judgements++
}

// due tells whether it is time to warn of such a thing again.
func (s *session) due(what string, now time.Time) bool {
	if last, ok := s.warnings[what]; ok && now.Sub(last) < warnEvery {
		return false
	}
	s.warnings[what] = now
	return true
}

// remember keeps an outbox's acknowledgement; it is only a shortcut past the database.
func (s *session) remember(outbox string, acked int64) {
	if _, ok := s.acked[outbox]; !ok && len(s.acked) >= maxOutboxes {
		clear(s.acked)
	}
	s.acked[outbox] = acked
}
