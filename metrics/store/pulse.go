package store

import (
	"sync"
	"time"
)

// pulse tracks the attempts that this process has started. The current time of an attempt is its start plus the elapsed
// time of a monotonic clock. Events of the attempt should use the same time.
type pulse struct {
	elapsed func() time.Duration // since a fixed moment
	mu      sync.Mutex
	begun   map[string]beat
}

// beat is the start of an attempt.
type beat struct {
	attempt int
	started float64 // as in the attempt's row
	elapsed time.Duration
}

func newPulse(elapsed func() time.Duration) *pulse {
	return &pulse{elapsed: elapsed, begun: map[string]beat{}}
}

func sinceNow() func() time.Duration {
	opened := time.Now()
	return func() time.Duration { return time.Since(opened) }
}

func (p *pulse) begin(run string, attempt int, started float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun[run] = beat{attempt, started, p.elapsed()}
}

// runs returns the runs that this process started.
func (p *pulse) runs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	runs := make([]string, 0, len(p.begun))
	for run := range p.begun {
		runs = append(runs, run)
	}
	return runs
}

// read returns a run's attempt and its current time. ok reports whether this process started the run.
func (p *pulse) read(run string) (attempt int, seen float64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.begun[run]
	return b.attempt, b.started + (p.elapsed() - b.elapsed).Seconds(), ok
}

// see records a heartbeat of a run's attempt.
func (tx *transaction) see(run string) error {
	attempt, seen, ok := tx.pulse.read(run)
	if !ok {
		return nil
	}
	_, err := tx.exec(seenSQL, run, attempt, seen)
	return err
}
