package stats

import (
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// frame holds the groups of a comparison and their pairs.
type frame struct {
	groups []group
	base   int // index of the baseline; -1: none
	set    string
	pairs  []pairing
}

// pairing holds the indices of two groups.
type pairing struct{ a, b int }

// newFrame groups the runs and pairs the groups: each with the baseline, or all with each other. The error is
// store.ErrNotFound for a baseline without runs.
func newFrame(runs Runs, o CompareOptions) (frame, error) {
	f := frame{groups: groupRuns(runs.Totals, o)}
	f.base = findBaseline(f.groups, o.Baseline)
	if o.ofStudyArms() && o.Baseline == "" {
		f.base = -1 // the study's design names its baseline
	}
	if f.base < 0 && o.Baseline != "" {
		return frame{}, fmt.Errorf("baseline %q: %w", o.Baseline, store.ErrNotFound)
	}
	f.set = evalSet(f.groups, f.base, runs.Evals)
	for i := range f.groups {
		if f.base >= 0 && i != f.base {
			f.pairs = append(f.pairs, pairing{i, f.base})
		}
		for other := range i {
			if o.Pairs && i != f.base && other != f.base {
				f.pairs = append(f.pairs, pairing{i, other})
			}
		}
	}
	return f, nil
}

// evalSet returns the set of held-out questions to compare: the baseline's, else the first one found.
func evalSet(groups []group, base int, evals map[string]store.EvalTotal) string {
	if base >= 0 {
		groups = append([]group{groups[base]}, groups...)
	}
	for _, g := range groups {
		for _, r := range g.runs {
			if e, ok := evals[r.Run.Run]; ok && e.Questions*e.Generations > 0 {
				return e.Set
			}
		}
	}
	return ""
}
