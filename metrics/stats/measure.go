package stats

import "slices"

// automatic reports whether the runs' data decides the measure.
func (o CompareOptions) automatic() bool { return o.Measure == "" || o.Measure == MeasureAuto }

// automatic returns the measure that MeasureAuto selects for groups over a span. It is held-out pass@1 if every seed of
// each group has it after at least one round of training, else the reward. If one seed lacks pass@1, the pair uses the
// reward, so that no seed is left out.
func automatic(runs Runs, s span, set string, groups ...group) string {
	for _, g := range groups {
		passes := len(g.perSeed(runs.pass(s, set)))
		if s.evalRound < 1 || passes == 0 || passes < len(g.perSeed(runs.reward(s))) {
			return MeasureReward
		}
	}
	return MeasurePass
}

// measure returns the measure of the comparison. With MeasureAuto it is pass@1 if any pair uses it; without pairs, it
// depends on all groups.
func (c *Comparison) measure(f frame, runs Runs, o CompareOptions) string {
	switch {
	case !o.automatic():
		return o.Measure
	case len(c.Pairs) == 0:
		return automatic(runs, newSpan(runs, f.set, f.groups...), f.set, f.groups...)
	case slices.ContainsFunc(c.Pairs, func(p Pair) bool { return p.Measure == MeasurePass }):
		return MeasurePass
	}
	return MeasureReward
}

// measures returns the measure of each group's value. A row that is compared with the baseline uses the measure of that
// pair, any other row that of the comparison.
func (f frame) measures(c Comparison) []string {
	out := slices.Repeat([]string{c.Measure}, len(f.groups))
	for i, p := range f.pairs {
		if p.b == f.base {
			out[p.a] = c.Pairs[i].Measure
		}
	}
	return out
}

// addMeasures reports the pairs that are not decided by the comparison's measure.
func (c *Comparison) addMeasures(o CompareOptions) {
	var x OtherMeasure
	for _, p := range c.Pairs {
		if p.Measure != c.Measure {
			x.Pairs = append(x.Pairs, [2]string{p.A, p.B})
		}
	}
	if len(x.Pairs) > 0 && o.automatic() {
		c.caveat(x)
	}
}
