package store

import (
	"sync"
	"time"
)

// pulse follows the attempts that this process has begun. An attempt's length comes from a clock that nobody sets: its
// times go on from its start by that, as those of its events should.
type pulse struct {
	elapsed func() time.Duration // since some fixed moment
	mu      sync.Mutex
	begun   map[string]beat
}

// beat is the begin of an attempt.
type beat struct {
	attempt int
	started float64 // as the attempt's row has it
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

// runs returns the runs that have begun here.
func (p *pulse) runs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	runs := make([]string, 0, len(p.begun))
	for run := range p.begun {
		runs = append(runs, run)
	}
	return runs
}

// read returns a run's attempt and its present. ok: it began here.
func (p *pulse) read(run string) (attempt int, seen float64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.begun[run]
	return b.attempt, b.started + (p.elapsed() - b.elapsed).Seconds(), ok
}

// see notes that a run's attempt is alive.
func (tx *transaction) see(run string) error {
	attempt, seen, ok := tx.pulse.read(run)
	if !ok {
		return nil
	}
	_, err := tx.exec(seenSQL, run, attempt, seen)
	return err
}
