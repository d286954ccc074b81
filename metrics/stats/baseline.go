package stats

import (
	"slices"
	"strings"
)

// BaselinePreset is the experiment without sharing. It is the default baseline of comparisons.
const BaselinePreset = "8loc0ext"

const baselineConfig = "8/0" // I/J of the baseline preset

// unnamedExperiment is the name of experiments that the user did not name. Such an experiment is the baseline only on
// request.
const unnamedExperiment = "default"

// findBaseline returns the index of the baseline among the groups. With a name it is the group with that name. Without
// a name it is the group of the preset 8loc0ext. It returns -1 if no group matches, or if several do and none is
// preferred.
func findBaseline(groups []group, name string) int {
	if name != "" {
		return named(groups, name)
	}
	if i := named(groups, BaselinePreset); i >= 0 && groups[i].isBaseline() {
		return i
	}
	for _, fits := range []func(group) bool{
		func(g group) bool { return g.runs[0].Preset == BaselinePreset },
		func(g group) bool { return strings.HasSuffix(g.experiment, "-"+BaselinePreset) },
		func(g group) bool {
			return ConfigName(g.runs[0].Run) == baselineConfig && g.experiment != unnamedExperiment
		},
	} {
		found := map[string]bool{}
		for _, g := range groups {
			if g.isBaseline() && fits(g) {
				found[g.experiment] = true
			}
		}
		for name := range found {
			if len(found) == 1 {
				return named(groups, name)
			}
		}
	}
	return -1
}

// isBaseline reports whether a group's nodes train alone, as in the baseline preset. A user's own trainer has neither I
// nor J.
func (g group) isBaseline() bool {
	r := g.runs[0].Run
	return r.NumTrainSamples > 0 && r.NumTransplantTrees == 0 && usual(settingOf(r).Split, "fixed")
}

// named returns the index of the group with a name. If an experiment was split, it returns the part with the most
// seeds, and the first of equal parts.
func named(groups []group, name string) int {
	if i := slices.IndexFunc(groups, func(g group) bool { return g.name == name }); i >= 0 {
		return i
	}
	best := -1
	for i, g := range groups {
		if slices.Contains(g.experiments, name) && (best < 0 || g.seeds() > groups[best].seeds()) {
			best = i
		}
	}
	return best
}

func (g group) seeds() int {
	seeds := map[int64]bool{}
	for _, r := range g.runs {
		seeds[r.Seed] = true
	}
	return len(seeds)
}
