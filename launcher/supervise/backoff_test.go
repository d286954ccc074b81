package supervise

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBackoffGrowsToItsCapAndGivesUp(t *testing.T) {
	f := NewFailures(Policy{MaxRestarts: 8, First: time.Second, Cap: 20 * time.Second}, func() float64 { return 0 })
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 20, 20, 20} {
		wait, again := f.Add(0, 0)
		if !again || wait != want*time.Second {
			t.Fatalf("failure %d: wait %s, again %t; want %ds", i+1, wait, again, want)
		}
	}
	if wait, again := f.Add(0, 0); again {
		t.Errorf("restarts a ninth time after %s", wait)
	}
}

func TestNoRestartsAllowed(t *testing.T) {
	if _, again := NewFailures(Policy{}, func() float64 { return 0 }).Add(time.Hour, 0); again {
		t.Error("restarted")
	}
}

func TestFailuresDecayWithHealthyRunning(t *testing.T) {
	f := NewFailures(Policy{MaxRestarts: 2, HalfLife: time.Hour}, func() float64 { return 0 })
	for i := range 100 {
		if _, again := f.Add(5*time.Hour, 0); !again {
			t.Fatalf("gave up at failure %d, five hours apart", i+1)
		}
	}
	f = NewFailures(Policy{MaxRestarts: 2, HalfLife: time.Hour}, func() float64 { return 0 })
	restarts := 0
	for {
		if _, again := f.Add(time.Minute, 0); !again {
			break
		}
		restarts++
	}
	if restarts != 2 {
		t.Errorf("%d restarts a minute apart, want 2", restarts)
	}
}

func TestFirstFailure(t *testing.T) {
	f := NewFailures(Policy{MaxRestarts: 5, HalfLife: time.Hour}, func() float64 { return 0 })
	for i, failure := range []struct {
		healthy time.Duration
		rounds  int
		first   bool
	}{
		{0, 0, true}, {time.Minute, 0, false}, {time.Minute, 1, false}, {time.Minute, 2, true}, {time.Minute, 1, true},
		{30 * time.Minute, 0, false}, {2 * time.Hour, 0, true}, {0, 0, false},
	} {
		f.Add(failure.healthy, failure.rounds)
		if f.First() != failure.first {
			t.Errorf("failure %d: first %t", i+1, f.First())
		}
	}
}

func TestBackoffStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{MaxRestarts: rapid.IntRange(0, 50).Draw(t, "restarts"), First: time.Second, Cap: time.Minute, Jitter: 0.5, HalfLife: time.Hour}
		f := NewFailures(p, func() float64 { return rapid.Float64Range(0, 1).Draw(t, "random") })
		quick := 0
		for range 100 {
			healthy := time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "healthy"))
			wait, again := f.Add(healthy, 0)
			if !again {
				if quick < p.MaxRestarts {
					t.Fatalf("gave up after %d of %d restarts", quick, p.MaxRestarts)
				}
				return
			}
			quick++
			if wait < p.First/2 || wait > p.Cap {
				t.Fatalf("wait %s", wait)
			}
		}
	})
}

// A process that completes a round per attempt is always restarted, however soon it dies.
func TestProgressIsNeverGivenUpOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{MaxRestarts: rapid.IntRange(1, 10).Draw(t, "restarts")}
		f := NewFailures(p, func() float64 { return 0 })
		for range rapid.IntRange(0, p.MaxRestarts).Draw(t, "fruitless lives before") {
			f.Add(0, 0)
		}
		for i := range 100 {
			wait, again := f.Add(0, rapid.IntRange(1, 3).Draw(t, "rounds"))
			if !again || wait > time.Minute {
				t.Fatalf("kill %d: again %t after %s", i+1, again, wait)
			}
		}
	})
}

// Without progress, the number of restarts in quick succession is bounded, even if rounds were completed before.
func TestFruitlessLivesAreGivenUpOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{MaxRestarts: rapid.IntRange(0, 20).Draw(t, "restarts")}
		f := NewFailures(p, func() float64 { return 0 })
		if p.MaxRestarts > 0 {
			f.Add(0, rapid.IntRange(0, 1000).Draw(t, "rounds of the first life"))
		}
		restarts := min(1, p.MaxRestarts)
		for _, again := f.Add(0, 0); again; _, again = f.Add(0, 0) {
			if restarts++; restarts > p.MaxRestarts {
				t.Fatalf("%d restarts, %d allowed", restarts, p.MaxRestarts)
			}
		}
		if restarts != p.MaxRestarts {
			t.Fatalf("%d restarts, %d allowed", restarts, p.MaxRestarts)
		}
	})
}
