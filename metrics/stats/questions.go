package stats

import (
	"slices"

	"github.com/sapo-swarm/swarm/metrics/stats/heldout"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// QuestionInterval is the interval of a pair's difference over seeds and questions.
type QuestionInterval = heldout.QuestionInterval

// evalPart is an evaluation with its weight in a run's compared value.
type evalPart struct {
	eval   store.EvalTotal
	weight float64
}

// evalParts returns the function that lists the evaluations behind a run's compared pass@1.
func (o CompareOptions) evalParts(runs Runs, s span, set string) func(store.Totals) []evalPart {
	if o.at != nil {
		return o.at.parts
	}
	return func(t store.Totals) []evalPart {
		if e, ok := runs.eval(t.Run.Run, set, s.evalRound); ok && e.Questions*e.Generations > 0 {
			return []evalPart{{e, 1}}
		}
		return nil
	}
}

// QuestionsNeeded lists the evaluations whose questions Runs.Questions must contain. Runs must already have the data
// that NeedsOf lists.
func QuestionsNeeded(runs Runs, o CompareOptions) ([]store.EvalTotal, error) {
	if !o.Questions {
		return nil, nil
	}
	study := o.Study
	if study != nil {
		runs, o, _ = o.ofStudy(runs)
	}
	if !o.automatic() && o.Measure != MeasurePass {
		return nil, nil
	}
	f, err := newFrame(runs, o)
	if err != nil {
		return nil, err
	}
	if study != nil && o.Per != "" && o.Per != PerRounds {
		if _, o.at, err = newStudyPer(*study, runs, f.set, o); err != nil {
			return nil, err
		}
	}
	var needed []store.EvalTotal
	for _, p := range f.pairs {
		a, b := f.groups[p.a], f.groups[p.b]
		parts := o.evalParts(runs, newSpan(runs, f.set, a, b), f.set)
		for _, t := range slices.Concat(a.runs, b.runs) {
			for _, part := range parts(t) {
				if !slices.Contains(needed, part.eval) {
					needed = append(needed, part.eval)
				}
			}
		}
	}
	return needed, nil
}

// crossing computes the intervals of a comparison's pairs over seeds and questions.
type crossing struct {
	heldout.Crossing
	runs    Runs
	set     string
	options CompareOptions
}

// interval returns the interval of the difference of two groups. It has none without CompareOptions.Questions.
func (x *crossing) interval(a, b group, s span) QuestionInterval {
	if !x.options.Questions {
		return QuestionInterval{}
	}
	return x.Interval(x.side(a, s), x.side(b, s))
}

// side returns a group's answers, from the runs that have a compared value.
func (x *crossing) side(g group, s span) heldout.Side {
	parts := x.options.evalParts(x.runs, s, x.set)
	var answers []heldout.Answers
	for _, t := range g.runs {
		if list := parts(t); len(list) > 0 {
			answers = append(answers, x.runs.answers(t.Seed, list))
		}
	}
	return heldout.NewSide(answers)
}

// answers returns a run's answers in the evaluations behind its compared value.
func (r Runs) answers(seed int64, parts []evalPart) heldout.Answers {
	a := heldout.Answers{Seed: seed}
	for i, part := range parts {
		list := r.Questions[part.eval.Run][part.eval.Round]
		if i == 0 {
			a.Right = make([]float64, len(list))
		}
		if len(list) != len(a.Right) {
			return heldout.Answers{}
		}
		a.Tasks = a.Tasks[:0]
		for q, x := range list {
			a.Tasks = append(a.Tasks, x.Task)
			a.Right[q] += part.weight * float64(x.Correct) / float64(x.Completions)
		}
	}
	return a
}
