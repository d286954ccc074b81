package stats

import (
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Span is a stretch of rounds, both ends counted, the first round being 1.
type Span struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// firstTaught is the first round whose rewards training can have changed: those of round 1 are the first weights'.
const firstTaught = 2

// span is how far groups are compared: over the rounds, and by the held-out evaluation, that all of their runs have.
type span struct {
	rounds int  // 0: no run has any
	cut    bool // some run did more
	uneven bool // the runs differ in length

	evalRound  int  // of the evaluation that is compared; noEval: none in common
	evalUneven bool // their newest evaluations are of different rounds
}

const noEval = -1

// newSpan finds what all runs of the groups have. Runs without a round, or without an evaluation of the set, have no
// say in it, as they have no value either.
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

// reached is how many rounds the fastest node of a run has done.
func reached(r store.Totals) int { return max(r.RoundsReached, r.RoundsDone) }

// commonEval is the newest round after which all runs of these evaluations have one of the same questions; noEval:
// there is none. One before the first round counts for none: it tells of no training.
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

// eval is a run's evaluation of a set of questions after so many rounds.
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

// sum is what a run's nodes did in so many first rounds.
func (r Runs) sum(t store.Totals, rounds int) (store.RewardSum, bool) {
	if reached(t) <= rounds {
		return store.RewardSum{NodeRounds: t.NodeRounds, Reward: t.CumulativeReward}, true
	}
	sum, ok := r.Sums[t.Run.Run][rounds]
	return sum, ok
}

// tooShort tells whether nothing is left to compare by a measure: too few rounds in common that training can have
// changed, or no evaluation.
func (s span) tooShort(o CompareOptions) bool {
	if HeldOut(o.Measure) {
		return s.evalUneven && s.evalRound == noEval
	}
	return s.uneven && s.rounds < firstTaught
}

// document is the span as the documents have it, nil where there is no round in it.
func (s span) document() *Span {
	if s.rounds < 1 {
		return nil
	}
	return &Span{1, s.rounds}
}

// evalDocument is the evaluation's round as the documents have it, nil where there is none.
func (s span) evalDocument() *int {
	if s.evalRound == noEval {
		return nil
	}
	return &s.evalRound
}

// Cut says what a pair is compared over, where runs are cut for it: a number of first rounds, or with a held-out
// measure the rounds after which the evaluations were made. ok is false where nothing is cut.
func (p Pair) Cut() (rounds int, ok bool) {
	switch {
	case p.short || p.Difference == nil:
		return 0, false
	case HeldOut(p.Measure) && p.span.evalUneven:
		return p.span.evalRound, true
	case !HeldOut(p.Measure) && p.span.uneven:
		return p.span.rounds, true
	}
	return 0, false
}
