package stats

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

var fourQuestions = []string{"x", "x", "y", "y"} // tasks

// addAnswered adds finished runs of an experiment, one seed each, with their share of right completions of each
// question.
func addAnswered(runs *Runs, name string, external int, tasks []string, results ...[]float64) {
	if runs.Evals == nil {
		runs.Evals, runs.Questions = map[string]store.EvalTotal{}, map[string]map[int][]store.QuestionTotal{}
	}
	for i, result := range results {
		x := experiment(name, external, 8)[0]
		x.Run.Run, x.Seed = fmt.Sprintf("%s-%d", name, i+1), int64(i+1)
		e := store.EvalTotal{Run: x.Run.Run, Set: "s", Round: 10, Generations: 10, Nodes: 1, Questions: len(result)}
		var list []store.QuestionTotal
		for q, v := range result {
			right := int(math.Round(10 * v))
			list = append(list, store.QuestionTotal{Task: tasks[q], Completions: 10, Correct: right, Nodes: []store.NodesRight{{Right: right, Nodes: 1}}})
			e.Correct += right
		}
		runs.Totals, runs.Evals[x.Run.Run] = append(runs.Totals, x), e
		runs.Questions[x.Run.Run] = map[int][]store.QuestionTotal{10: list}
	}
}

// answered returns three seeds of a and two of b that answer like each other: see TestQuestionsAreDrawnWithinTheirTask
// of metrics/stats/sample for the interval.
func answered() Runs {
	var runs Runs
	a, b := []float64{0.5, 0.8, 0.3, 0.9}, []float64{0.4, 0.5, 0.1, 0.3}
	addAnswered(&runs, "study-a", 4, fourQuestions, a, a, a)
	addAnswered(&runs, "study-b", 0, fourQuestions, b, b)
	return runs
}

var answeredOptions = CompareOptions{Baseline: "study-b", Measure: MeasurePass, Questions: true}

func TestTheIntervalOverSeedsAndQuestions(t *testing.T) {
	runs := answered()
	pairOf := func(runs Runs, o CompareOptions) Pair {
		c, err := Compare(runs, o)
		require.NoError(t, err)
		return c.Pairs[0]
	}
	p := pairOf(runs, answeredOptions)
	require.InDelta(t, 0.3, *p.Difference, 1e-12)
	require.Equal(t, 4, *p.Questions)
	require.InDeltaSlice(t, []float64{0.15, 0.45}, []float64{*p.QuestionsLow, *p.QuestionsHigh}, 1e-12)

	automatic := answeredOptions
	automatic.Measure = MeasureAuto
	require.Equal(t, p.QuestionInterval, pairOf(runs, automatic).QuestionInterval)
	for name, change := range map[string]func(*Runs, *CompareOptions){
		"not asked for":                      func(_ *Runs, o *CompareOptions) { o.Questions = false },
		"another measure":                    func(_ *Runs, o *CompareOptions) { o.Measure = MeasureEval },
		"a run without results by question":  func(r *Runs, _ *CompareOptions) { delete(r.Questions, "study-a-2") },
		"questions of other tasks":           func(r *Runs, _ *CompareOptions) { r.Questions["study-b-1"][10][0].Task = "z" },
		"one seed":                           func(r *Runs, _ *CompareOptions) { r.Totals = r.Totals[:4] },
		"a side without runs to be compared": func(r *Runs, _ *CompareOptions) { delete(r.Evals, "study-b-1"); delete(r.Evals, "study-b-2") },
	} {
		runs, o := answered(), answeredOptions
		change(&runs, &o)
		require.Equal(t, QuestionInterval{}, pairOf(runs, o).QuestionInterval, name)
	}

	// Two runs of one seed give its mean: with them, a has two seeds with 0.2 more than b in the first question.
	again := answered()
	addAnswered(&again, "study-a", 4, fourQuestions, []float64{0.5, 0.8, 0.3, 0.9}, []float64{0.7, 0.8, 0.3, 0.9}, []float64{0.6, 0.8, 0.3, 0.9})
	again.Totals[5].Seed, again.Totals[6].Seed, again.Totals[7].Seed = 1, 1, 2
	again.Totals = again.Totals[3:]
	p = pairOf(again, answeredOptions)
	require.Equal(t, 2, p.SeedsA)
	require.InDeltaSlice(t, []float64{(0.2 + 0.2) / 2, (0.3 + 0.6) / 2}, []float64{*p.QuestionsLow, *p.QuestionsHigh}, 1e-12)
}

// A planned comparison has the interval of its pair, turned around if it is planned the other way.
func TestAPlannedComparisonHasItsPairsInterval(t *testing.T) {
	d := &StudyDesign{Name: "study", Baseline: "b", Contrasts: [][2]string{{"a", "b"}, {"b", "a"}},
		Arms: []StudyArm{{Name: "b", Experiment: "study-b"}, {Name: "a", Experiment: "study-a"}}}
	c, err := Compare(answered(), CompareOptions{Study: d, Questions: true})
	require.NoError(t, err)
	there, back := c.Study.Contrasts[0], c.Study.Contrasts[1]
	require.InDeltaSlice(t, []float64{0.15, 0.45, -0.45, -0.15}, []float64{*there.QuestionsLow, *there.QuestionsHigh, *back.QuestionsLow, *back.QuestionsHigh}, 1e-12)
	require.Equal(t, []int{4, 4}, []int{*there.Questions, *back.Questions})
}

// The evaluations to read are the compared ones: the newest, or those around a horizon.
func TestEvaluationsWhoseQuestionsAreNeeded(t *testing.T) {
	runs := answered()
	needed, err := QuestionsNeeded(runs, answeredOptions)
	require.NoError(t, err)
	require.Len(t, needed, 5)
	require.Contains(t, needed, runs.Evals["study-b-2"])
	o := answeredOptions
	o.Measure = MeasureReward
	needed, err = QuestionsNeeded(runs, o)
	require.NoError(t, err)
	require.Empty(t, needed)

	costs, d := costly("")
	needed, err = QuestionsNeeded(costs, CompareOptions{Study: d, Per: "completions", Questions: true})
	require.NoError(t, err)
	rounds := map[string]int{}
	for _, e := range needed {
		rounds[e.Run] = e.Round
	}
	require.Len(t, needed, 8)
	require.Equal(t, []int{2, 4}, []int{rounds["full-0"], rounds["half-0"]}, "40 completions are two rounds of 20 and four of 10")
	between := costs.HeldOut["half-0"].Evals
	c := newCosts(*d, groupRuns(costs.Totals, CompareOptions{arms: true}), costs, "s", CompareOptions{Measure: MeasurePass})[1]
	require.Equal(t, []evalPart{{between[1], 0.75}, {between[2], 0.25}}, c.parts("half-0", 25), "from 20 to 40 completions")
}

// Of 10 completions, c of them right, 1 - (10-c)(9-c)/90 pairs contain a right one.
func TestComparisonByPassOfSeveral(t *testing.T) {
	o := answeredOptions
	o.Measure = "pass@2"
	runs := answered()
	c, err := Compare(runs, o)
	require.NoError(t, err)
	require.Equal(t, []string{"pass@2", "eval_pass_2"}, []string{c.Measure, c.Basis})
	a := (4 - (20+2+42+0)/90.) / 4
	b := (4 - (30+20+72+42)/90.) / 4
	require.InDelta(t, a, *c.Rows[0].Value, 1e-12)
	require.InDelta(t, a-b, *c.Pairs[0].Difference, 1e-12)
	require.InDelta(t, (0.5+0.8+0.3+0.9)/4, *c.Rows[0].EvalPass1, 1e-12, "the columns stay as they are")
	// Questions are drawn within their task: twice the one with the smaller difference, or twice the other.
	low, high := (10+30)/90./2, (18+42)/90./2
	require.InDeltaSlice(t, []float64{low, high}, []float64{*c.Pairs[0].QuestionsLow, *c.Pairs[0].QuestionsHigh}, 1e-12)

	// Two nodes of five completions are not one of ten.
	require.InDelta(t, (0+0.4)/2, passOfQuestion(store.QuestionTotal{Completions: 10, Correct: 1, Nodes: []store.NodesRight{{Right: 0, Nodes: 1}, {Right: 1, Nodes: 1}}}, "pass@2"), 1e-12)

	needed, err := QuestionsNeeded(runs, CompareOptions{Baseline: "study-b", Measure: "pass@2"})
	require.NoError(t, err)
	require.Len(t, needed, 5, "without Questions, too")
	// Of the swarm, they are: of 10 completions, one of them right, two contain it with probability 0.2.
	require.InDelta(t, 0.2, passOfQuestion(store.QuestionTotal{Completions: 10, Correct: 1}, "swarm-pass@2"), 1e-12)
	o.Measure = "swarm-pass@10" // one node, so that every question with a right completion counts
	c, err = Compare(runs, o)
	require.NoError(t, err)
	require.Equal(t, []string{"swarm-pass@10", "eval_swarm_pass_10"}, []string{c.Measure, c.Basis})
	require.InDelta(t, 1, *c.Rows[0].Value, 1e-12)
	runs.Questions["study-a-1"][10][0].Completions = 20 // of two nodes
	require.False(t, runs.answered(runs.Evals["study-a-1"], "swarm-pass@10"), "both nodes may have had the same random numbers")
	own := runs.Evals["study-a-1"]
	own.Set += event.OwnDraws
	require.True(t, runs.answered(own, "swarm-pass@10"))
	runs = answered()
	o.Measure = "pass@11"
	c, err = Compare(runs, o)
	require.NoError(t, err)
	require.Nil(t, c.Rows[0].Value)
	require.Equal(t, ReasonNoEvaluation, c.Pairs[0].Reason.Kind)
}

func TestMeasuresByName(t *testing.T) {
	for text, want := range map[string]string{
		"auto": "auto", "reward": "reward", "eval": "eval", "pass": "pass", "pass@1": "pass", "pass@4": "pass@4", "pass@04": "pass@4",
		"pass@0": "", "pass@": "", "pass@-1": "", "pass@1e3": "", "pass@65537": "", "pass4": "", "": "",
		"swarm-pass@32": "swarm-pass@32", "swarm-pass@1": "pass", "swarm-pass": "", "swarm-pass@x": "",
	} {
		measure, ok := ParseMeasure(text)
		require.Equal(t, []any{want, want != ""}, []any{measure, ok}, text)
	}
	require.Equal(t, []int{1, 4, 32, 0, 0}, []int{PassOf("pass"), PassOf("pass@4"), PassOf("swarm-pass@32"), PassOf("eval"), PassOf("")})
	require.Equal(t, []bool{true, true, true, true, false},
		[]bool{HeldOut("eval"), HeldOut("pass"), HeldOut("pass@4"), HeldOut("swarm-pass@32"), HeldOut("reward")})
}
