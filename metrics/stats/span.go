package stats

import (
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Span is a range of rounds, both ends included, counted from 1.
type Span struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// firstTaught is the first round whose rewards training can have changed. Round 1 uses the initial weights.
const firstTaught = 2

// span is the part of groups that is compared: the rounds, and the held-out evaluation, that all of their runs have.
type span struct {
	rounds int  // rounds in common; 0: no run has any
	cut    bool // some run did more rounds
	uneven bool // the runs differ in length

	evalRound  int  // rounds before the compared evaluation; noEval: none in common
	evalUneven bool // the newest evaluations are of different rounds
}

const noEval = -1

// newSpan finds the rounds and the evaluation that all runs of the groups have. It ignores runs without a round or
// without an evaluation of the set, because they have no value.
func newSpan(runs Runs, set string, groups ...group) span {
	s := span{evalRound: noEval}
	var evaluated []store.EvalTotal
	for _, g := range groups {
		for _, r := range g.runs {
			if r.NodeRounds > 0 {
				s.uneven = s.uneven || s.rounds != 0 && s.rounds != r.RoundsDone
				s.rounds = leastAboveZero(s.rounds, r.RoundsDone)
			}
			if e, ok := runs.Evals[r.Run.Run]; ok && e.Set == set {
				evaluated = append(evaluated, e)
				s.evalUneven = s.evalUneven || e.Round != evaluated[0].Round
			}
		}
	}
	for _, g := range groups {
		s.cut = s.cut || slices.ContainsFunc(g.runs, func(r store.Totals) bool { return reached(r) > s.rounds })
	}
	switch {
	case len(evaluated) == 0:
	case s.evalUneven:
		s.evalRound = runs.commonEval(evaluated)
	default:
		s.evalRound = evaluated[0].Round
	}
	return s
}

func leastAboveZero(a, b int) int {
	if a == 0 || b < a {
		return b
	}
	return a
}

// reached returns the finished rounds of a run's fastest node.
func reached(r store.Totals) int { return max(r.RoundsReached, r.RoundsDone) }

// commonEval returns the newest round at which all runs of these evaluations have an evaluation of the same questions,
// or noEval. Evaluations before the first round do not count, because they do not measure training.
func (r Runs) commonEval(evaluated []store.EvalTotal) int {
	newest := noEval
	for _, x := range r.EvalRounds[evaluated[0].Run] {
		if x.Set == evaluated[0].Set && x.Round > max(0, newest) && r.allHave(evaluated, x) {
			newest = x.Round
		}
	}
	return newest
}

func (r Runs) allHave(evaluated []store.EvalTotal, x store.EvalTotal) bool {
	return !slices.ContainsFunc(evaluated, func(e store.EvalTotal) bool {
		_, ok := r.eval(e.Run, x.Set, x.Round)
		return !ok
	})
}

// eval returns a run's evaluation of a set of questions after a number of rounds.
func (r Runs) eval(run, set string, round int) (store.EvalTotal, bool) {
	if e, ok := r.Evals[run]; ok && e.Set == set && e.Round == round {
		return e, true
	}
	for _, e := range r.EvalRounds[run] {
		if e.Set == set && e.Round == round {
			return e, true
		}
	}
	return store.EvalTotal{}, false
}

// sum returns the rewards of a run's nodes that train over the first rounds.
func (r Runs) sum(t store.Totals, rounds int) (store.RewardSum, bool) {
	if reached(t) <= rounds {
		return t.Trained(), true
	}
	sum, ok := r.Sums[t.Run.Run][rounds]
	return sum, ok
}

// tooShort reports whether a measure has nothing to compare: too few common rounds that training can have changed, or
// no common evaluation.
func (s span) tooShort(o CompareOptions) bool {
	if o.at != nil {
		return false
	}
	if HeldOut(o.Measure) {
		return s.evalUneven && s.evalRound == noEval
	}
	return s.uneven && s.rounds < firstTaught
}

// document returns the span for documents, or nil if it has no round.
func (s span) document() *Span {
	if s.rounds < 1 {
		return nil
	}
	return &Span{1, s.rounds}
}

// evalDocument returns the evaluation's round for documents, or nil if there is none.
func (s span) evalDocument() *int {
	if s.evalRound == noEval {
		return nil
	}
	return &s.evalRound
}

// cutFor returns the rounds over which a measure is compared, or after which a held-out one is, if some run did more; 0
// if none did.
func (s span) cutFor(measure string) int {
	switch {
	case HeldOut(measure) && s.evalUneven:
		return s.evalRound
	case !HeldOut(measure) && s.uneven:
		return s.rounds
	}
	return 0
}

// Cut returns what a pair is compared over if runs were cut: a number of first rounds, or for a held-out measure the
// rounds before the compared evaluations. ok is false if no run was cut.
func (p Pair) Cut() (rounds int, ok bool) {
	if rounds = p.span.cutFor(p.Measure); p.short || p.Difference == nil {
		return 0, false
	}
	return rounds, rounds > 0
}
