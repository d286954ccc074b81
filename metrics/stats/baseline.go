package stats

import (
	"slices"
	"strings"
)

// BaselinePreset is the experiment without sharing, which others are compared with by themselves.
const BaselinePreset = "8loc0ext"

const baselineConfig = "8/0" // its I/J

// unnamedExperiment is the name of an experiment that nobody named: it is the baseline only where it is asked for.
const unnamedExperiment = "default"

// findBaseline returns the place of the baseline among the groups: the one of that name; without a name that of the
// preset 8loc0ext. It is -1 where none is of that name, or where it isn't known which of several would be meant.
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

// isBaseline tells whether a group's nodes train alone, as the preset's do. A trainer of the user has neither I nor J.
func (g group) isBaseline() bool {
	r := g.runs[0].Run
	return r.NumTrainSamples > 0 && r.NumTransplantTrees == 0 && usual(settingOf(r).Split, "fixed")
}

// named is the place of the group of that name. Of an experiment that was split it is the part with the most seeds, the
// first of equals.
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
