package membership

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

const (
	sweepEvery  = time.Second
	settleEvery = 100 * time.Millisecond
)

// Serve detects silent, banned and revoked workers until ctx ends.
func (r *AdmissionServer) Serve(ctx context.Context) {
	if r.o.Registry != nil {
		done := make(chan struct{})
		defer func() { <-done }()
		go func() {
			defer close(done)
			r.o.Registry.Watch(ctx, r.review)
		}()
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.sweep()
		}
	}
}

// sweep finds workers that have fallen silent.
func (r *AdmissionServer) sweep() {
	r.lock()
	defer r.flush()
	now := r.o.Now()
	for _, s := range r.sessions {
		if s.state == event.WorkerConnected && now.Sub(s.observed) > r.silence {
			r.report(s, event.WorkerAway, "silent for "+now.Sub(s.observed).Round(time.Second).String())
			r.lineup.silence(s.present(), true)
		}
	}
	r.lineup.overdue()
}

// review finds workers that were banned or revoked.
func (r *AdmissionServer) review() {
	r.lock()
	defer r.flush()
	for _, s := range r.sessions {
		if refusal := r.o.Registry.standing(s.worker); refusal != nil {
			r.expel(s, refusal)
		}
	}
}

// expel ends the membership of a banned or revoked worker, once.
func (r *AdmissionServer) expel(s *session, refusal *Refusal) {
	state := event.WorkerRevoked
	switch refusal.Code {
	case CodeBanned:
		state = event.WorkerBanned
	case CodeRevoked:
	default: // an error of the registry
		return
	}
	if s.state == state {
		return
	}
	message, _, _ := strings.Cut(refusal.Message, ". Try: ")
	s.reason = message
	for _, assignment := range s.present() {
		r.lineup.leave(assignment, event.CauseStopped, message)
	}
	r.moved = r.o.Now()
	r.report(s, state, message)
	if r.o.Expel != nil {
		r.expelled = append(r.expelled, s.worker)
	}
}

// Settled returns nil once every worker has left, or its nodes have completed their rounds and their events are
// delivered. After End, a worker also counts as settled once it is silent. If no worker makes progress for patience,
// Settled reports a warning and returns nil. It returns an error only if ctx ends.
func (r *AdmissionServer) Settled(ctx context.Context, patience time.Duration) error {
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	began := r.o.Now()
	for {
		open, moved := r.unsettled()
		if len(open) == 0 {
			return nil
		}
		if moved.Before(began) {
			moved = began
		}
		if r.o.Now().Sub(moved) >= patience {
			r.mu.Lock()
			r.warn(nil, "", "no longer waiting for: "+strings.Join(open, ", "))
			r.flush()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", strings.Join(open, ", "), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// unsettled returns the names of up to three workers that are not settled, the number of others, and the time of the
// last progress.
func (r *AdmissionServer) unsettled() (open []string, moved time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		if !r.settled(s) {
			open = append(open, "worker "+s.worker)
		}
	}
	slices.Sort(open)
	if more := len(open) - 3; more > 0 {
		open = append(open[:3], fmt.Sprintf("%d more", more))
	}
	return open, r.moved
}

func (r *AdmissionServer) settled(s *session) bool {
	switch s.state {
	case event.WorkerLeft, event.WorkerBanned, event.WorkerRevoked:
		return true
	case "":
		return len(s.present()) == 0 || r.ended != ""
	case event.WorkerAway:
		if r.ended != "" {
			return true
		}
	default:
		if r.ended != "" {
			return false
		}
	}
	for _, assignment := range s.present() {
		if assignment.state != event.StateDone {
			return false
		}
	}
	return s.pending == 0
}
