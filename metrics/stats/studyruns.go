package stats

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// StateMissing is the state of a StudyRun that has not started.
const StateMissing = "missing"

// studyRuns holds a study's runs by status.
type studyRuns struct {
	counted                     []store.Totals // done, by arm
	failed, unfinished, missing []StudyRun

	explored []store.Totals // done, of seeds that decide nothing
}

// decides reports whether a seed decides: one of the chosen seeds, or without these one that is not explored.
func (d StudyDesign) decides(seed int64, chosen []int64) bool {
	if len(chosen) > 0 {
		return slices.Contains(chosen, seed)
	}
	return !slices.Contains(d.Explored, seed)
}

// sortOut selects the study's runs. Unfinished runs do not count, and are listed. Seeds that do not decide are only
// listed if they are done.
func (d StudyDesign) sortOut(all []store.Totals, chosen []int64) studyRuns {
	type place struct {
		arm  int
		seed int64
	}
	var out studyRuns
	var own []store.Totals
	begun, done := map[place]bool{}, map[place]bool{}
	var seeds []int64
	at := func(r store.Totals) place { return place{d.arm(r.Experiment), r.Seed} }
	for _, r := range all {
		if d.arm(r.Experiment) < 0 {
			continue
		}
		if !d.decides(r.Seed, chosen) {
			if r.State == store.RunDone {
				out.explored = append(out.explored, r)
			}
			continue
		}
		own = append(own, r)
		begun[at(r)] = true
		done[at(r)] = done[at(r)] || r.State == store.RunDone
		if !slices.Contains(seeds, r.Seed) {
			seeds = append(seeds, r.Seed)
		}
	}
	byArm := func(a, b store.Totals) int {
		return cmp.Or(cmp.Compare(at(a).arm, at(b).arm), cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Run.Run, b.Run.Run))
	}
	slices.SortStableFunc(own, byArm)
	slices.SortStableFunc(out.explored, byArm)
	slices.Sort(seeds)
	for _, r := range own {
		left := StudyRun{d.Arms[at(r).arm].Name, r.Experiment, r.Seed, r.Run.Run, r.State, r.Message, done[at(r)]}
		switch r.State {
		case store.RunDone:
			out.counted = append(out.counted, r)
		case store.RunFailed, store.RunLost:
			out.failed = append(out.failed, left)
		default:
			out.unfinished = append(out.unfinished, left)
		}
	}
	for i, arm := range d.Arms {
		for _, seed := range seeds {
			if !begun[place{i, seed}] {
				out.missing = append(out.missing, StudyRun{Name: arm.Name, Experiment: arm.Experiment, Seed: seed, State: StateMissing})
			}
		}
	}
	return out
}

// lost counts the seeds of each experiment that the alarm stopped.
func (s studyRuns) lost() map[string]int {
	n := map[string]int{}
	for _, r := range s.unfinished {
		if store.StoppedByAlarm(r.State, r.Message) && !r.Again {
			n[r.Experiment]++
		}
	}
	return n
}

// arm returns the index of the arm of an experiment, or -1 if the study has none.
func (d StudyDesign) arm(experiment string) int {
	return slices.IndexFunc(d.Arms, func(a StudyArm) bool { return a.Experiment == experiment })
}

// ShortName returns the name of an experiment's arm, or the experiment's own name if it is not part of the study.
func (d StudyDesign) ShortName(experiment string) string {
	if i := d.arm(experiment); i >= 0 {
		return d.Arms[i].Name
	}
	return experiment
}

// unequal lists the facts in which runs differ although all runs of a study should share them. Nodes may differ if the
// study's design asks for it.
func (d StudyDesign) unequal(runs []store.Totals) (out []Inequality) {
	add := func(what string, count func(store.Totals) int) {
		arms := map[int][]string{}
		for _, r := range runs {
			n, name := count(r), d.ShortName(r.Experiment)
			if !slices.Contains(arms[n], name) {
				arms[n] = append(arms[n], name)
			}
		}
		if len(arms) < 2 {
			return
		}
		x := Inequality{What: what}
		for _, n := range slices.Sorted(maps.Keys(arms)) {
			x.Counts = append(x.Counts, InequalityCount{n, arms[n]})
		}
		out = append(out, x)
	}
	add("rounds", func(r store.Totals) int { return r.RoundsDone })
	if !slices.ContainsFunc(d.Arms, func(a StudyArm) bool { return a.Nodes != d.Arms[0].Nodes }) {
		add("nodes", func(r store.Totals) int { return r.NodesSeen })
	}
	return out
}

// teachers lists the arms whose runs have nodes that only generate, in the study's order.
func (d StudyDesign) teachers(runs []store.Totals) (arms []string) {
	for _, a := range d.Arms {
		if slices.ContainsFunc(runs, func(r store.Totals) bool { return r.Experiment == a.Experiment && r.Teachers > 0 }) {
			arms = append(arms, a.Name)
		}
	}
	return arms
}

// Experiments returns the recorded names of the study's experiments, in its order.
func (d StudyDesign) Experiments() []string {
	names := make([]string, len(d.Arms))
	for i, a := range d.Arms {
		names[i] = a.Experiment
	}
	return names
}

// BaselineArm returns the arm that gains are measured against: the arm named Baseline, else the first.
func (d StudyDesign) BaselineArm() StudyArm {
	if i := slices.IndexFunc(d.Arms, func(a StudyArm) bool { return a.Name == d.Baseline }); i >= 0 {
		return d.Arms[i]
	}
	if len(d.Arms) > 0 {
		return d.Arms[0]
	}
	return StudyArm{Name: d.Baseline}
}
