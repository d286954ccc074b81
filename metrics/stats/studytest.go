package stats

import (
	"cmp"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// StudyTest compares a study's arms by one figure of their held-out curves. It has the planned comparisons, or without
// these each arm against the baseline. P-values are corrected for these comparisons, or without planned ones for all
// pairs of arms, but not for several tests.
type StudyTest struct {
	Of          string          `json:"of"`
	Place       float64         `json:"place"` // of TestCost: the target
	Comparisons []StudyContrast `json:"comparisons"`
}

// Figures that a StudyTest compares.
const (
	TestValue = "value" // at Place
	TestArea  = "area"  // mean of the curve up to Place
	TestCost  = "cost"  // of reaching Place; less is better. Without a test if a seed never reached it
)

// valueOf returns a run's figure; ok is false if it has none.
type valueOf func(store.Totals) (value float64, ok bool)

// test compares the arms by a figure: of is TestValue, TestArea or TestCost. An arm with a run that has no value has
// none.
func (d StudyDesign) test(of string, groups []group, o CompareOptions, value valueOf) []StudyContrast {
	names := d.Contrasts
	base := d.BaselineArm().Name
	if len(names) == 0 {
		for i, a := range d.Arms {
			for _, b := range d.Arms[:i] {
				if a.Name == base {
					a, b = b, a
				}
				names = append(names, [2]string{a.Name, b.Name})
			}
		}
	}
	pairs := make([]Pair, len(names))
	for i, pair := range names {
		a, b := d.group(groups, pair[0]), d.group(groups, pair[1])
		pairs[i] = newPair(side{a.name, a.complete(value)}, side{b.name, b.complete(value)})
		pairs[i].lostA, pairs[i].lostB = a.lost(o), b.lost(o)
		if of == TestCost { // less is better
			pairs[i].lostA, pairs[i].lostB = b.lost(o), a.lost(o)
		}
		if len(a.runs) > 0 && len(b.runs) > 0 {
			pairs[i].Differs = o.differences(a, b)
		}
		if len(pairs[i].Confounders()) > 0 {
			pairs[i] = pairs[i].withoutStatistics()
			pairs[i].Outcome = OutcomeNotComparable
		}
	}
	out := d.contrasts(pairs)
	for i, x := range out {
		if of == TestCost {
			out[i].Outcome = opposite(x.Outcome)
		}
	}
	if len(d.Contrasts) == 0 {
		out = slices.DeleteFunc(out, func(c StudyContrast) bool { return c.B != base })
	}
	return out
}

// group returns the group of an arm. It has no runs if none counts.
func (d StudyDesign) group(groups []group, arm string) group {
	for _, g := range groups {
		if d.ShortName(g.experiment) == arm {
			return g
		}
	}
	return group{name: arm}
}

// complete is perSeed if all runs have a finite value, else nil.
func (g group) complete(value valueOf) []float64 {
	for _, r := range g.runs {
		if v, ok := value(r); !ok || !units.Finite(v) {
			return nil
		}
	}
	return g.perSeed(value)
}

// addTests compares the arms by the figures that were asked for, and on the other axes.
func (p *StudyPer) addTests(d StudyDesign, runs Runs, o CompareOptions, all []costs) {
	groups := groupRuns(runs.Totals, o)
	for _, c := range all {
		if c.axis.Name != p.Axis {
			p.addAxis(d, groups, o, c)
			continue
		}
		if !p.Asked || len(c.arms) == 0 {
			continue
		}
		for _, x := range p.Horizons {
			p.Tests = append(p.Tests, StudyTest{TestValue, x, d.test(TestValue, groups, o, c.at(x))})
		}
		common := c.arms.Common()
		area := func(t store.Totals) (float64, bool) { return c.runs[t.Run.Run].Area(common) }
		p.Tests = append(p.Tests, StudyTest{TestArea, common, d.test(TestArea, groups, o, area)})
		if p.Target == nil {
			continue
		}
		cost := d.test(TestCost, groups, o, func(t store.Totals) (float64, bool) { return c.runs[t.Run.Run].Reach(*p.Target), true })
		p.Tests = append(p.Tests, StudyTest{TestCost, *p.Target, cost})
	}
}

// at returns the runs' values at a place.
func (c costs) at(place float64) valueOf {
	return func(t store.Totals) (float64, bool) { return c.runs[t.Run.Run].At(place) }
}

// addAxis adds the order and the planned comparisons on another axis, if all arms with a counted run have a value
// there. It skips times unless all runs are known to come from one machine.
func (p *StudyPer) addAxis(d StudyDesign, groups []group, o CompareOptions, c costs) {
	common := c.arms.Common()
	if !(common > 0) || !units.Finite(common) || c.axis.SideBySide && (p.OneMachine == nil || !*p.OneMachine) {
		return
	}
	x := StudyAxis{Axis: c.axis.Name, Unit: c.axis.Unit, Currency: c.currency, Horizon: common, Order: []string{}, Contrasts: []StudyContrast{}}
	means := map[string]float64{}
	for _, g := range groups {
		values := g.complete(c.at(common))
		if values == nil {
			return
		}
		name := d.ShortName(g.experiment)
		means[name], x.Order = sample.Mean(values), append(x.Order, name)
	}
	if len(x.Order) == 0 {
		return
	}
	slices.SortStableFunc(x.Order, func(a, b string) int { return cmp.Compare(means[b], means[a]) })
	x.Best, x.Value = x.Order[0], means[x.Order[0]]
	if len(d.Contrasts) > 0 {
		x.Contrasts = d.test(TestValue, groups, o, c.at(common))
	}
	p.OtherAxes = append(p.OtherAxes, x)
}
