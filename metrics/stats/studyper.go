package stats

import (
	"cmp"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/heldout"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// StudyPer is the held-out pass@1 of a study's arms against their cost on an axis. A run's value between two
// evaluations is interpolated linearly.
type StudyPer struct {
	Axis     string        `json:"axis"`
	Unit     string        `json:"unit"`           // the axis': number or seconds
	Currency string        `json:"currency"`       // of money
	Horizons []float64     `json:"horizons"`       // places on the axis, ascending
	Common   *float64      `json:"common_horizon"` // largest place that all runs of all arms reach; null: no run has a curve
	Rows     []heldout.Row `json:"rows"`           // arms with a curve, in the study's order

	Target       *float64       `json:"target,omitempty"`         // pass@1, with CompareOptions.Target
	CostToTarget []heldout.Cost `json:"cost_to_target,omitempty"` // by Rows

	OneMachine *bool       `json:"one_machine"` // all runs come from one host and device; null: a host is not recorded
	OtherAxes  []StudyAxis `json:"other_axes"`  // the other axes on which all arms have a value

	Measure string      `json:"measure"` // of the curves: pass, pass@K or swarm-pass@K
	Tests   []StudyTest `json:"tests"`   // at Horizons, of the area and of the cost; empty unless the user named an axis, horizons or a target

	Asked bool `json:"-"` // the user named an axis, horizons or a target
}

// StudyAxis is the order of the arms at the common horizon of another axis, and the planned comparisons there.
type StudyAxis struct {
	Axis     string  `json:"axis"`
	Unit     string  `json:"unit"`
	Currency string  `json:"currency"`
	Horizon  float64 `json:"horizon"`
	Best     string  `json:"best"`
	Value    float64 `json:"value"`

	Order     []string        `json:"order"`     // the arms by their means, highest first
	Contrasts []StudyContrast `json:"contrasts"` // planned comparisons
}

// EqualRounds reports whether the verdict compares at equal rounds.
func (p *StudyPer) EqualRounds() bool { return p == nil || p.Axis == PerRounds }

// HeldOutSeries is the recorded data behind a run's held-out curves.
type HeldOutSeries struct {
	RunSeries                   // with AxisMetrics in More, and one of them in Values
	Evals     []store.EvalTotal // all evaluations, by round
}

// horizon is a place on an axis at which runs are compared, instead of at equal rounds.
type horizon struct {
	axis     Axis
	currency string
	place    float64 // +Inf: the cost of all runs is unknown
	value    func(store.Totals) (float64, bool)
	parts    func(store.Totals) []evalPart // the evaluations that make up the value
}

// costs has the held-out curves of a study's runs on one axis.
type costs struct {
	axis     Axis
	currency string // of money
	arms     heldout.Arms
	runs     map[string]heldout.Curve // by run; runs without a curve are missing
	evals    map[string][]store.EvalTotal
}

// newStudyPer returns the StudyPer of the options' axis, and the horizon at which runs are compared: nil for equal
// rounds.
func newStudyPer(d StudyDesign, runs Runs, set string, o CompareOptions) (*StudyPer, *horizon, []costs, error) {
	axis, err := AxisOf(o.Per)
	if err != nil {
		return nil, nil, nil, err
	}
	deciding := runs.Totals
	if len(deciding) == 0 {
		deciding = o.explored
	}
	p := &StudyPer{Axis: axis.Name, Unit: axis.Unit, Measure: o.Measure, OtherAxes: []StudyAxis{}, Tests: []StudyTest{}, OneMachine: oneMachine(deciding),
		Asked: o.asksCost()}
	var at *horizon
	all := newCosts(d, groupRuns(slices.Concat(runs.Totals, o.explored), o), runs, set, o)
	for _, c := range all {
		common := c.arms.Common()
		if c.axis.Name != axis.Name {
			continue
		}
		p.Currency, p.Common, p.Horizons = c.currency, Optional(common), o.At
		if len(o.At) == 0 {
			p.Horizons = c.arms.Usual()
		}
		p.Rows = c.arms.Rows(p.Horizons)
		if o.Target != 0 {
			p.Target, p.CostToTarget = &o.Target, c.arms.Costs(o.Target)
		}
		if axis.Name != PerRounds {
			parts := func(t store.Totals) []evalPart { return c.parts(t.Run.Run, common) }
			at = &horizon{axis, c.currency, common, c.at(common), parts}
		}
	}
	return p, at, all, nil
}

// newCosts returns the curves on every axis, in the order of axes, from the evaluations with one question set that have
// a value of the measure.
func newCosts(d StudyDesign, groups []group, runs Runs, set string, o CompareOptions) []costs {
	out := make([]costs, len(axes))
	for i, a := range axes {
		out[i] = costs{axis: a, runs: map[string]heldout.Curve{}, evals: map[string][]store.EvalTotal{}}
	}
	for _, g := range groups {
		arms := make([]heldout.Arm, len(axes))
		for _, t := range g.runs {
			s := runs.HeldOut[t.Run.Run]
			c := NewCurve(t.Run, "", s.Values, CurveOptions{})
			var evals []store.EvalTotal
			var passes []float64
			for _, e := range s.Evals {
				if pass, ok := runs.passOf(e, o.Measure); ok && e.Set == set {
					evals, passes = append(evals, e), append(passes, pass)
				}
			}
			for i := range out {
				curve := newHeldOut(axes[i], c, s.RunSeries, evals, passes)
				decides := d.decides(t.Seed, o.Seeds)
				if out[i].add(t.Run, curve, evals) && (decides || len(o.Seeds) == 0) {
					arms[i].Runs = append(arms[i].Runs, heldout.Run{Seed: t.Seed, Curve: curve, Explored: !decides})
				}
			}
		}
		for i, arm := range arms {
			if arm.Name = d.ShortName(g.experiment); len(arm.Runs) > 0 {
				out[i].arms = append(out[i].arms, arm)
			}
		}
	}
	return out
}

// add adds a run's curve unless it is empty. For money it also skips runs in another currency than the first run's.
func (c *costs) add(run store.Run, curve heldout.Curve, evals []store.EvalTotal) (added bool) {
	if len(curve.Place) == 0 {
		return false
	}
	if c.axis.IsMoney() {
		if c.currency = cmp.Or(c.currency, run.PriceCurrency); c.currency != run.PriceCurrency {
			return false
		}
	}
	c.runs[run.Run], c.evals[run.Run] = curve, evals
	return true
}

// parts returns the evaluations that make up a run's value at a place.
func (c costs) parts(run string, place float64) []evalPart {
	next, share, ok := c.runs[run].Around(place)
	switch {
	case !ok:
		return nil
	case share == 1:
		return []evalPart{{c.evals[run][next], 1}}
	}
	return []evalPart{{c.evals[run][next-1], 1 - share}, {c.evals[run][next], share}}
}

// newHeldOut returns the curve of evaluations with these values, which are in order of rounds. The place before the
// first round is 0. If the place of any evaluation is unknown, the curve is empty.
func newHeldOut(a Axis, c Curve, s RunSeries, evals []store.EvalTotal, passes []float64) (h heldout.Curve) {
	var places Values
	if a.Name != PerRounds {
		places = a.places(c, s)
	}
	for i, e := range evals {
		place := math.NaN()
		if a.Name == PerRounds {
			place = float64(e.Round)
		} else if k, ok := slices.BinarySearch(c.Round, e.Round-1); ok {
			place = places[k]
		} else if e.Round == 0 {
			place = 0
		}
		if !units.Finite(place) {
			return heldout.Curve{}
		}
		h.Place, h.Pass = append(h.Place, place), append(h.Pass, passes[i])
	}
	return h
}

// oneMachine reports whether all runs come from one host and device, without workers. nil: a host is not recorded.
func oneMachine(runs []store.Totals) *bool {
	one, known, host := true, len(runs) > 0, ""
	for _, r := range runs {
		host = cmp.Or(host, r.Host)
		known = known && r.Host != ""
		one = one && r.Workers == 0 && r.Device == runs[0].Device && (r.Host == "" || r.Host == host)
	}
	if one && !known {
		return nil
	}
	return &one
}
