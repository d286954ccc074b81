package stats

import "slices"

// automatic tells whether the measure is left to what the runs have.
func (o CompareOptions) automatic() bool { return o.Measure == "" || o.Measure == MeasureAuto }

// automatic is the measure of MeasureAuto for some groups over a span: held-out pass@1 where every seed of each has it
// after a round of training, else the reward. One seed more than the other measure would leave out decides nothing.
func automatic(runs Runs, s span, set string, groups ...group) string {
	for _, g := range groups {
		passes := len(g.perSeed(runs.pass(s, set)))
		if s.evalRound < 1 || passes == 0 || passes < len(g.perSeed(runs.reward(s))) {
			return MeasureReward
		}
	}
	return MeasurePass
}

// measure is the comparison's: with MeasureAuto the pairs' first choice, and without pairs what all groups have.
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

// measures are what each group's value is of: of a row that is compared with the baseline the pair's measure, else the
// comparison's.
func (f frame) measures(c Comparison) []string {
	out := slices.Repeat([]string{c.Measure}, len(f.groups))
	for i, p := range f.pairs {
		if p.b == f.base {
			out[p.a] = c.Pairs[i].Measure
		}
	}
	return out
}

// addMeasures names the pairs that are not decided by the comparison's measure.
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
