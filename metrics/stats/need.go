package stats

import (
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Needs lists the data that Compare needs in addition to the sums of whole runs. It is empty if all runs are equally
// long.
type Needs struct {
	Sums  map[string][]int // by run: the numbers of first rounds that Runs.Sums must have
	Evals []string         // runs for which Runs.EvalRounds must have every evaluation

	HeldOut []string // runs that Runs.HeldOut must have
}

// NeedsOf returns the data of runs that Compare needs for these options. It reads only Totals and Evals.
func NeedsOf(runs Runs, o CompareOptions) (Needs, error) {
	n := Needs{Sums: map[string][]int{}}
	if o.Study != nil {
		runs, o, _ = o.ofStudy(runs)
		for _, r := range slices.Concat(runs.Totals, o.explored) {
			if o.curves() {
				n.HeldOut = append(n.HeldOut, r.Run.Run)
			}
		}
	}
	f, err := newFrame(runs, o)
	if err != nil {
		return Needs{}, err
	}
	for _, g := range groupRuns(o.explored, o) {
		n.add(newSpan(runs, f.set, g), g)
	}
	for _, g := range f.groups {
		n.add(newSpan(runs, f.set, g), g)
	}
	if o.ofStudyArms() { // where they are ranked
		n.add(newSpan(runs, f.set, f.groups...), f.groups...)
	}
	for _, p := range f.pairs {
		n.add(newSpan(runs, f.set, f.groups[p.a], f.groups[p.b]), f.groups[p.a], f.groups[p.b])
	}
	return n, nil
}

func (n *Needs) add(s span, groups ...group) {
	for _, g := range groups {
		for _, r := range g.runs {
			n.addRun(s, r)
		}
	}
}

func (n *Needs) addRun(s span, r store.Totals) {
	if run := r.Run.Run; reached(r) > s.rounds && r.NodeRounds > 0 && !slices.Contains(n.Sums[run], s.rounds) {
		n.Sums[run] = append(n.Sums[run], s.rounds)
	}
	if s.evalUneven && !slices.Contains(n.Evals, r.Run.Run) {
		n.Evals = append(n.Evals, r.Run.Run)
	}
}
