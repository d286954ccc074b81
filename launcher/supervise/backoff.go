package supervise

import (
	"math"
	"time"
)

// Policy limits how often, and after what wait, a process is restarted. Zero values mean the defaults, except for
// MaxRestarts.
type Policy struct {
	MaxRestarts int           // failures in quick succession that lead to a restart
	First       time.Duration // wait after the first failure; default 1 s
	Cap         time.Duration // longest wait; default 60 s
	Jitter      float64       // random part of the wait, 0..1; default 0.2
	HalfLife    time.Duration // healthy running time in which the failure count halves; default 2 h
}

// Failures counts one process's failures. The count decays with healthy running time, so that one failure a day
// never leads to giving up. Each completed round compensates for one failure: a process that makes progress is
// restarted however often it is killed. So only a process that dies without progress is given up. Failures has no
// clock: the caller passes the times.
type Failures struct {
	policy Policy
	random func() float64
	count  float64
}

// NewFailures returns an empty count. random returns numbers in [0, 1).
func NewFailures(p Policy, random func() float64) *Failures {
	if p.First <= 0 {
		p.First = time.Second
	}
	if p.Cap <= 0 {
		p.Cap = time.Minute
	}
	if p.Jitter <= 0 {
		p.Jitter = 0.2
	}
	if p.HalfLife <= 0 {
		p.HalfLife = 2 * time.Hour
	}
	return &Failures{policy: p, random: random}
}

// First reports whether the last failure is the only one that counts, because rounds or healthy running time have
// compensated for those before it.
func (f *Failures) First() bool { return f.count <= 1.5 }

// Add counts a failure. healthy is the running time since the model was loaded. rounds are the rounds that were
// completed for the first time. Add returns the wait before the next start, or false to give up.
func (f *Failures) Add(healthy time.Duration, rounds int) (wait time.Duration, again bool) {
	f.count *= math.Exp2(-float64(max(0, healthy)) / float64(f.policy.HalfLife))
	f.count = max(0, f.count-float64(max(0, rounds))) + 1
	if f.count > float64(f.policy.MaxRestarts) {
		return 0, false
	}
	full := math.Min(float64(f.policy.Cap), float64(f.policy.First)*math.Exp2(f.count-1))
	return time.Duration(full * (1 - f.policy.Jitter*f.random())), true
}
