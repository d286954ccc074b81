package stats

import (
	"cmp"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// The collapse alarm's rule: the mean gradient norm of the newest AlarmWindow rounds is above a factor times that of
// the rounds from AlarmFrom to before AlarmTo, counted from 0. The rule and its factors were found afterwards in
// recorded runs (docs/RESULTS.md, "The alarm") and are not confirmed on fresh runs that collapse.
const (
	AlarmFactor = 1.6  // of a warning: early, and raised by some runs that do not collapse
	StopFactor  = 2.25 // of a stop: later, and reached by no recorded run that did not collapse
	AlarmWindow = 20
	AlarmFrom   = 20
	AlarmTo     = 60

	AlarmFirst = AlarmTo + AlarmWindow // rounds before the first judgment, so that the windows do not overlap
	AlarmQuiet = 20                    // rounds in which the rule must not hold before the alarm is raised again
)

// alarmLeast is the share of a window's rounds that must have a finite gradient norm.
const alarmLeast = 0.5

// GradientGrowth compares a run's newest gradient norms with its early ones. Both are means over rounds of the mean
// over nodes; NaN: too few rounds have one.
type GradientGrowth struct {
	Round             int // the newest judged round, from 0
	Recent, Reference float64
}

// Above reports whether the rule holds with a factor. It returns false if a mean is missing or the reference is 0.
func (g GradientGrowth) Above(factor float64) bool {
	return g.Reference > 0 && units.Finite(g.Recent) && g.Recent > factor*g.Reference
}

// CollapseAlarm judges a run round by round. Its results depend only on Factor and the values passed to Add. The zero
// value has judged no round.
type CollapseAlarm struct {
	Factor float64 // 0: AlarmFactor

	rounds int       // that were added
	early  []float64 // of the rounds from AlarmFrom to before AlarmTo
	recent []float64 // of the newest AlarmWindow rounds
	raised bool      // the alarm is raised, and the rule has not yet been false for AlarmQuiet rounds
	quiet  int       // rounds for which the rule has been false
}

// Add adds the gradient norms of the nodes that did the next round, in any order, and reports whether the alarm is
// raised at this round. It is raised when the rule holds for the first time, and again only after the rule did not hold
// for AlarmQuiet rounds.
func (a *CollapseAlarm) Add(norms ...float64) (g GradientGrowth, raised bool) {
	sorted := slices.Sorted(slices.Values(norms)) // a sum's last digit depends on the order
	norm := sample.Mean(sorted)
	if AlarmFrom <= a.rounds && a.rounds < AlarmTo {
		a.early = append(a.early, norm)
	}
	a.recent = append(a.recent, norm)
	if len(a.recent) > AlarmWindow {
		a.recent = slices.Delete(a.recent, 0, 1)
	}
	g = GradientGrowth{Round: a.rounds, Recent: windowMean(a.recent), Reference: windowMean(a.early)}
	if a.rounds++; a.rounds < AlarmFirst {
		return g, false
	}
	if !g.Above(cmp.Or(a.Factor, AlarmFactor)) {
		if a.quiet++; a.quiet >= AlarmQuiet {
			a.raised = false
		}
		return g, false
	}
	a.quiet = 0
	raised, a.raised = !a.raised, true
	return g, raised
}

// Rounds returns the number of added rounds.
func (a *CollapseAlarm) Rounds() int { return a.rounds }

// Alarms returns the rounds of a series at which the alarm with a factor is raised. norms is the mean gradient norm
// over nodes by round.
func Alarms(norms []float64, factor float64) (list []GradientGrowth) {
	a := CollapseAlarm{Factor: factor}
	for _, norm := range norms {
		if g, raised := a.Add(norm); raised {
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
	if float64(finite) < alarmLeast*float64(len(values)) {
		return math.NaN()
	}
	return sample.Mean(values)
}
