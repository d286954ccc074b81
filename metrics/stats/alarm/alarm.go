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
// the rounds from From to before To, counted from 0. If more groups have an advantage than in those rounds, the bound
// is that many times higher. The rule and its factors were found afterwards in recorded runs. Five fresh runs of
// uncorrected 4/4 that collapsed confirmed them (docs/RESULTS.md, "The alarm").
const (
	WarnFactor = 1.6  // of a warning: early, and raised by some runs that do not collapse
	StopFactor = 2.25 // of a stop: later, and reached by no recorded run that did not collapse
	Window     = 20
	From       = 20
	To         = 60

	First = To + Window // rounds before the first judgment, so that the windows do not overlap
	Quiet = 20          // rounds in which the rule must not hold before the alarm is raised again
)

// least is the share of a window's rounds that must have a finite gradient norm.
const least = 0.5

// Growth compares a run's newest gradient norms with its early ones. Both are means over rounds of the mean
// over nodes; NaN: too few rounds have one.
type Growth struct {
	Round             int // the newest judged round, from 0
	Recent, Reference float64

	// How many times as many groups have an advantage in the newest rounds as in the early ones, at least 1. A group
	// without one adds nothing to the gradient, so where right answers are rare at first, the norm grows as learning
	// begins. It is 1 if a mean is missing or 0.
	Expected float64
}

// Above reports whether the rule holds with a factor. It returns false if a mean is missing or the reference is 0.
func (g Growth) Above(factor float64) bool {
	return g.Reference > 0 && units.Finite(g.Recent) && g.Recent > factor*g.Expected*g.Reference
}

// Ratio returns the growth that the rule compares with its factor: that of the norm, divided by the expected one.
func (g Growth) Ratio() float64 { return g.Recent / (g.Expected * g.Reference) }

// Collapse judges a run round by round. Its results depend only on Factor and the values passed to Add. The zero
// value has judged no round.
type Collapse struct {
	Factor float64 // 0: WarnFactor

	rounds int  // that were added
	norms  pair // of gradients
	groups pair // with an advantage
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

// Add adds the gradients of the nodes that did the next round, in any order, and reports whether the alarm is
// raised at this round. It is raised when the rule holds for the first time, and again only after the rule did not hold
// for Quiet rounds.
func (a *Collapse) Add(gradients ...event.Gradient) (g Growth, raised bool) {
	var norms, groups []float64
	for _, gradient := range gradients {
		norms, groups = append(norms, gradient.Norm), append(groups, gradient.Groups)
	}
	a.norms.add(a.rounds, norms)
	a.groups.add(a.rounds, groups)
	g = Growth{Round: a.rounds, Recent: windowMean(a.norms.recent), Reference: windowMean(a.norms.early), Expected: 1}
	if more := windowMean(a.groups.recent) / windowMean(a.groups.early); units.Finite(more) {
		g.Expected = max(1, more)
	}
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

// Raised returns the rounds of a series at which the alarm with a factor is raised. series has the nodes' gradients by
// round.
func Raised(series [][]event.Gradient, factor float64) (list []Growth) {
	a := Collapse{Factor: factor}
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
