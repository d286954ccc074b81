// Package alarm finds gradients that grow as they do before a collapse of training. It is pure.
package alarm

import (
	"cmp"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// The collapse alarm's rule: the mean gradient norm of the newest Window rounds is above a factor times that of
// the rounds from From to before To, counted from 0. If few groups had an advantage in those rounds and more have one
// now, the bound is that many times higher. The rule and its factors were found afterwards in recorded runs. Five fresh
// runs of uncorrected 4/4 over 300 rounds that collapsed confirmed the factors. Five other fresh runs that collapsed
// stayed below StopFactor (docs/RESULTS.md, "The alarm").
const (
	WarnFactor = 1.6  // of a warning: early, and raised by some runs that do not collapse
	StopFactor = 2.25 // of a stop: later; with the expected growth no recorded run that did not collapse reaches it
	Window     = 20
	From       = 20
	To         = 60

	First = To + Window // rounds before the first judgment, so that the windows do not overlap
	Quiet = 20          // rounds in which the rule must not hold before the alarm is raised again
)

// rare is the share of groups with an advantage in the early rounds, below which the norm is expected to grow with it.
// It was chosen after runs with 0.07 to 0.14, whose norms did, and runs with 0.61 to 0.66, whose collapses the rule
// would miss otherwise. Few recorded runs lie between, and none of them shows which value is right. No fresh run
// confirms it.
const rare = 0.5

// least is the share of a window's rounds that must have a finite gradient norm.
const least = 0.5

// Growth compares a run's newest gradient norms with its early ones. Both are means over rounds of the mean
// over nodes; NaN: too few rounds have one.
type Growth struct {
	Round             int // the newest judged round, from 0
	Recent, Reference float64

	// Expected is the growth in the share of groups with an advantage, at least 1. A group without one adds only to the
	// loss's denominator, so where right answers are rare at first, the norm grows as learning begins. It is 1 if the
	// early share was not rare or no node reports a share, and NaN if there is none of one of the windows, or the early
	// one is 0.
	Expected float64
}

// Above reports whether the rule holds with a factor. It returns false if a mean is missing, the reference is 0 or
// the expected growth is NaN.
func (g Growth) Above(factor float64) bool {
	return g.Reference > 0 && units.Finite(g.Recent) && g.Recent > factor*g.Expected*g.Reference
}

// Ratio returns the growth that the rule compares with its factor: that of the norm, divided by the expected one.
func (g Growth) Ratio() float64 { return g.Recent / (g.Expected * g.Reference) }

// Rule is how a run is judged.
type Rule struct {
	Factor float64 // 0: WarnFactor

	AllActive  bool // every group counts as one with an advantage: with a KL penalty all have a gradient
	Unfiltered bool // others' groups are drawn whether they have an advantage or not; as many have one as of the own
}

// active returns the share of a training set's groups that have an advantage, or NaN if it is not known.
func (r Rule) active(g event.Gradient) float64 {
	own := 1 - g.Flat
	switch {
	case r.AllActive:
		return 1
	case r.Unfiltered || g.Own+g.External == 0:
		return own
	}
	return (g.Own*own + g.External) / (g.Own + g.External)
}

// Collapse judges a run round by round. Its results depend only on Rule and the values passed to Add. The zero value
// has judged no round.
type Collapse struct {
	Rule

	rounds int  // that were added
	norms  pair // of gradients
	active pair // shares of groups with an advantage
	raised bool // the alarm is raised, and the rule has not yet been false for Quiet rounds
	quiet  int  // rounds for which the rule has been false
}

// pair holds two windows of a value's means over nodes.
type pair struct {
	early  []float64 // of the rounds from From to before To
	recent []float64 // of the newest Window rounds
}

// add adds the values of the nodes that did a round.
func (p *pair) add(round int, values []float64) {
	slices.Sort(values) // a sum's last digit depends on the order
	mean := sample.Mean(values)
	if From <= round && round < To {
		p.early = append(p.early, mean)
	}
	p.recent = append(p.recent, mean)
	if len(p.recent) > Window {
		p.recent = slices.Delete(p.recent, 0, 1)
	}
}

// growth returns the growth from the early to the newest rounds, but at least 1, as Growth.Expected.
func (p *pair) growth() float64 {
	early, recent := windowMean(p.early), windowMean(p.recent)
	switch {
	case math.IsNaN(early) && math.IsNaN(recent), recent <= early, early >= rare:
		return 1
	case early == 0:
		return math.NaN()
	}
	return recent / early
}

// Add adds the gradients of the nodes that did the next round, in any order, and reports whether the alarm is
// raised at this round. It is raised when the rule holds for the first time, and again only after the rule did not hold
// for Quiet rounds.
func (a *Collapse) Add(gradients ...event.Gradient) (g Growth, raised bool) {
	var norms, active []float64
	for _, gradient := range gradients {
		norms, active = append(norms, gradient.Norm), append(active, a.Rule.active(gradient))
	}
	a.norms.add(a.rounds, norms)
	a.active.add(a.rounds, active)
	g = Growth{Round: a.rounds, Recent: windowMean(a.norms.recent), Reference: windowMean(a.norms.early), Expected: a.active.growth()}
	if a.rounds++; a.rounds < First {
		return g, false
	}
	if !g.Above(cmp.Or(a.Factor, WarnFactor)) {
		if a.quiet++; a.quiet >= Quiet {
			a.raised = false
		}
		return g, false
	}
	a.quiet = 0
	raised, a.raised = !a.raised, true
	return g, raised
}

// Rounds returns the number of added rounds.
func (a *Collapse) Rounds() int { return a.rounds }

// Stands reports whether the alarm was raised and the rule has not been false for Quiet rounds since.
func (a *Collapse) Stands() bool { return a.raised }

// Raised returns the rounds of a series at which a rule raises the alarm. series has the nodes' gradients by round.
func Raised(series [][]event.Gradient, rule Rule) (list []Growth) {
	a := Collapse{Rule: rule}
	for _, gradients := range series {
		if g, raised := a.Add(gradients...); raised {
			list = append(list, g)
		}
	}
	return list
}

// windowMean returns the mean of the finite values, or NaN if there are too few.
func windowMean(values []float64) float64 {
	finite := 0
	for _, v := range values {
		if units.Finite(v) {
			finite++
		}
	}
	if float64(finite) < least*float64(len(values)) {
		return math.NaN()
	}
	return sample.Mean(values)
}
