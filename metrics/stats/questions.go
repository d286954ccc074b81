package stats

import (
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/heldout"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// AnswerCounts holds an evaluation's completions by task, and by whether the node that answers draws the task itself.
type AnswerCounts = heldout.Counts

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
	if !o.Questions && PassOf(o.Measure) < 2 {
		return nil, nil
	}
	study := o.Study
	if study != nil {
		runs, o, _ = o.ofStudy(runs)
	}
	if !o.automatic() && PassOf(o.Measure) == 0 {
		return nil, nil
	}
	f, err := newFrame(runs, o)
	if err != nil {
		return nil, err
	}
	var needed []store.EvalTotal
	if study != nil && PassOf(o.Measure) > 1 && o.curves() {
		for _, t := range slices.Concat(runs.Totals, o.explored) {
			needed = append(needed, runs.HeldOut[t.Run.Run].Evals...)
		}
		return needed, nil
	}
	if study != nil && o.Per != "" && o.Per != PerRounds {
		if _, o.at, _, err = newStudyPer(*study, runs, f.set, o); err != nil {
			return nil, err
		}
	}
	add := func(groups ...group) {
		parts := o.evalParts(runs, newSpan(runs, f.set, groups...), f.set)
		for _, g := range groups {
			for _, t := range g.runs {
				for _, part := range parts(t) {
					if !slices.Contains(needed, part.eval) {
						needed = append(needed, part.eval)
					}
				}
			}
		}
	}
	for _, p := range f.pairs {
		add(f.groups[p.a], f.groups[p.b])
	}
	if study != nil && PassOf(o.Measure) > 1 { // where its arms are ranked
		add(f.groups...)
	}
	if PassOf(o.Measure) > 1 || o.Tasks { // rows without a pair show it, too
		for _, g := range f.groups {
			add(g)
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
		list := parts(t)
		several := PassOf(x.options.Measure) > 1
		if len(list) > 0 && (!several || x.runs.answered(list[0].eval, x.options.Measure)) {
			answers = append(answers, x.runs.answers(t.Seed, list, x.options.Measure))
		}
	}
	return heldout.NewSide(answers)
}

// answered reports whether an evaluation has what a measure pass@k or swarm-pass@k needs: results by question, k
// completions of each, and for swarm-pass@k completions that are independent between nodes.
func (r Runs) answered(e store.EvalTotal, measure string) bool {
	questions, completions := r.Questions[e.Run][e.Round], e.Generations
	if len(questions) > 0 && OfSwarm(measure) {
		completions = questions[0].Completions
		if completions > e.Generations && !strings.HasSuffix(e.Set, event.OwnDraws) {
			return false
		}
	}
	return len(questions) > 0 && completions >= PassOf(measure)
}

// answers returns a run's value of a measure for each question, in the evaluations behind its compared value.
func (r Runs) answers(seed int64, parts []evalPart, measure string) heldout.Answers {
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
			a.Right[q] += part.weight * passOfQuestion(x, measure)
		}
	}
	return a
}

// passOfQuestion returns a measure's value for one question that has enough completions. Measures other than pass@k and
// swarm-pass@k have pass@1.
func passOfQuestion(q store.QuestionTotal, measure string) float64 {
	k := PassOf(measure)
	switch {
	case k <= 1:
		return float64(q.Correct) / float64(q.Completions)
	case OfSwarm(measure):
		return heldout.PassAtK(q.Completions, q.Correct, k)
	}
	nodes, sum := 0, 0.0
	for _, x := range q.Nodes {
		nodes += x.Nodes
	}
	for _, x := range q.Nodes {
		sum += float64(x.Nodes) * heldout.PassAtK(q.Completions/nodes, x.Right, k)
	}
	return sum / float64(nodes)
}
