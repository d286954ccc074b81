package membership

import (
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

const (
	maxEverNodes = 4 * MaxNodes // total number of nodes that a worker has brought over time
	maxOutboxes  = 4            // cached acknowledgments per worker, one per outbox
	judged       = 50           // offers on which a worker's standing is based
	warnEvery    = time.Minute
)

// session is the coordinator's state of a worker.
type session struct {
	worker, host, process, version, device string

	state       event.State // one of event.Worker*; empty: from an earlier attempt, no sign of life yet
	observed    time.Time
	drift       drift
	rates       *rates
	assignments []*assignment // all that it ever had in this run
	pending     int64         // undelivered events, as the worker reports
	invitation  string        // id of its invitation, see Registry.Invitation; empty: unknown
	stored      quota

	offered, refused, bytes, dropped int64
	reason                           string // of the newest refusal, or why its membership ended
	recent                           [judged]bool
	judgements                       int
	suspect                          bool

	acked    map[string]int64 // by outbox
	busy     chan struct{}    // held by the delivery in progress
	warnings map[string]time.Time
}

// newSession returns a session of a worker whose messages are delayed by at most about slack.
func newSession(worker string, now time.Time, slack time.Duration) *session {
	return &session{
		worker: worker, observed: now, drift: newDrift(slack), rates: newRates(), acked: map[string]int64{},
		busy: make(chan struct{}, 1), warnings: map[string]time.Time{},
	}
}

// owns returns the worker's assignment of a node, nil if the node is not the worker's.
func (s *session) owns(node string) *assignment {
	for _, assignment := range s.assignments {
		if assignment.Node == node {
			return assignment
		}
	}
	return nil
}

// present returns the assignments of nodes that are members now.
func (s *session) present() []*assignment {
	var list []*assignment
	for _, assignment := range s.assignments {
		if assignment.gone == "" {
			list = append(list, assignment)
		}
	}
	return list
}

// accept records an accepted offer.
func (s *session) accept(bytes int) {
	s.offered++
	s.bytes += int64(bytes)
	s.judge(false)
}

// refuse records a refused offer. It returns a warning if the worker has become suspect.
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
		return fmt.Sprintf("of the newest %d offers of worker %s, %d were refused, the last because: %s. Try: swarm workers ban %s",
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

// due reports whether a warning of this kind is due again, and records it.
func (s *session) due(what string, now time.Time) bool {
	if last, ok := s.warnings[what]; ok && now.Sub(last) < warnEvery {
		return false
	}
	s.warnings[what] = now
	return true
}

// remember caches an outbox's acknowledgment, to save a database query.
func (s *session) remember(outbox string, acked int64) {
	if _, ok := s.acked[outbox]; !ok && len(s.acked) >= maxOutboxes {
		clear(s.acked)
	}
	s.acked[outbox] = acked
}
