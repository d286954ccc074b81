package store

import (
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// pulse tracks the attempts and jobs that this process has started. The current time of an attempt is its start plus
// the elapsed time of a monotonic clock. Events of the attempt should use the same time. A job's is the wall clock's
// (see).
type pulse struct {
	elapsed func() time.Duration // since a fixed moment
	mu      sync.Mutex
	begun   map[string]beat // by run or job
}

// beat is the start of an attempt or a job.
type beat struct {
	attempt int     // from 1; 0: a job
	started float64 // as in its row
	elapsed time.Duration
}

func newPulse(elapsed func() time.Duration) *pulse {
	return &pulse{elapsed: elapsed, begun: map[string]beat{}}
}

func sinceNow() func() time.Duration {
	opened := time.Now()
	return func() time.Duration { return time.Since(opened) }
}

func (p *pulse) begin(name string, attempt int, started float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun[name] = beat{attempt, started, p.elapsed()}
}

// names returns the runs and jobs that this process started.
func (p *pulse) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]string, 0, len(p.begun))
	for name := range p.begun {
		names = append(names, name)
	}
	return names
}

// read returns a run's attempt and its current time. Of a job the attempt is 0. ok reports whether this process started
// the run or job.
func (p *pulse) read(name string) (attempt int, seen float64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.begun[name]
	return b.attempt, b.started + (p.elapsed() - b.elapsed).Seconds(), ok
}

// see records a heartbeat of a run's attempt or of a job.
func (tx *transaction) see(name string) error {
	attempt, seen, ok := tx.pulse.read(name)
	if !ok {
		return nil
	}
	query, args := seenSQL, []any{name, attempt, seen}
	if attempt == 0 { // Other hosts compare it with their clocks, and elapsed time lacks a suspended host's.
		query, args = jobSeenSQL, []any{name, event.Now()}
	}
	_, err := tx.exec(query, args...)
	return err
}
