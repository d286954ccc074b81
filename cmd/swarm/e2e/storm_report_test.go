package e2e

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// announce prints the next fault, with an estimate of the remaining time.
func (s *storm) announce(f fault, count int) {
	if !*stormProgress {
		return
	}
	elapsed := time.Since(s.began)
	left := "?"
	if done := f.number - 1; done > 0 {
		left = (elapsed / time.Duration(done) * time.Duration(count-done)).Round(time.Second).String()
	}
	s.keeper.mu.Lock()
	front := s.keeper.front(stormNodes)
	s.keeper.mu.Unlock()
	fmt.Fprintf(os.Stderr, "%7.1f s  round %4d  about %s left  fault %s\n", elapsed.Seconds(), front, left, f)
}

// table formats a storm's results: the number of faults by kind, and the swarm's recovery times.
func (s *storm) table(took, calm time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	type row struct {
		count, together int
		sum, slowest    time.Duration
	}
	rows := map[string]*row{}
	for _, r := range s.records {
		kind := rows[r.fault.kind.name]
		if kind == nil {
			kind = &row{}
			rows[r.fault.kind.name] = kind
		}
		kind.count++
		if r.fault.together {
			kind.together++
		}
		kind.sum += r.recovery
		kind.slowest = max(kind.slowest, r.recovery)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "storm of seed %d: %d faults in %.0f s; the calm run took %.0f s\n", *stormSeed, len(s.records), took.Seconds(), calm.Seconds())
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "fault\ttimes\tof these overlapping\tmean recovery s\tslowest s\t")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t\n", name, r.count, r.together, r.sum.Seconds()/float64(r.count), r.slowest.Seconds())
	}
	w.Flush()
	k := s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	fmt.Fprintf(&b, "coordinator started %d times, %d loads, %d rounds replayed, %d memory steps, slowest orderly stop %.1f s\n",
		k.attempts, k.loads, k.replayed, k.steps, s.slowestStop.Seconds())
	for _, name := range slices.Sorted(maps.Keys(k.warnings)) {
		fmt.Fprintf(&b, "%s: %d\n", name, k.warnings[name])
	}
	return b.String()
}

// explain fails the test with the information needed to find the cause.
func (s *storm) explain(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, r := range s.records[max(0, len(s.records)-10):] {
		fmt.Fprintf(&b, "%7.1f s  %s\n", r.at.Seconds(), r.fault)
	}
	s.t.Errorf("storm of seed %d, -storm.faults %d: %v\nthe last faults:\n%s", *stormSeed, *stormFaults, err, b.String())
}
