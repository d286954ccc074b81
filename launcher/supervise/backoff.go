package supervise

import (
	"math"
	"time"
)

// Policy says how often, and after which wait, a process is started again. Zero takes the default, but for MaxRestarts.
type Policy struct {
	MaxRestarts int           // failures in quick succession that are answered by a restart
	First       time.Duration // wait after the first failure; 1 s
	Cap         time.Duration // longest wait; 60 s
	Jitter      float64       // part of the wait that is random, 0..1; 0.2
	HalfLife    time.Duration // of healthy running in which the failure count halves; 2 h
}

// Failures counts one process's failures. A failure counts less the longer the process ran well before it, so that one
// death a day never adds up to giving up; and each round that it got done makes up for one, so that a process which is
// killed again and again but gets on is started again for as long as it does. What is left to give up on is a process
// that dies without getting anything done. It has no clock: whoever waits, tells.
type Failures struct {
	policy Policy
	random func() float64
	count  float64
}

// NewFailures returns an empty count; random returns numbers in [0, 1).
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

// First tells whether the last failure is the first that counts: rounds or a half-life of healthy running have made up
// for those before it.
func (f *Failures) First() bool { return f.count <= 1.5 }

// Add counts a failure after a time of healthy running, from the model's loading on, in which so many rounds were done
// for the first time. It returns how long to wait before the next start, or false to give up.
func (f *Failures) Add(healthy time.Duration, rounds int) (wait time.Duration, again bool) {
	f.count *= math.Exp2(-float64(max(0, healthy)) / float64(f.policy.HalfLife))
	f.count = max(0, f.count-float64(max(0, rounds))) + 1
	if f.count > float64(f.policy.MaxRestarts) {
		return 0, false
	}
	full := math.Min(float64(f.policy.Cap), float64(f.policy.First)*math.Exp2(f.count-1))
	return time.Duration(full * (1 - f.policy.Jitter*f.random())), true
}
