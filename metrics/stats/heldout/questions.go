package heldout

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/stats/sample"
)

// QuestionInterval is the interval of a difference in held-out pass@k over other seeds and other questions of the same
// tasks. The interval over seeds alone says nothing about other questions. A QuestionInterval decides nothing.
type QuestionInterval struct {
	Questions     *int     `json:"questions"`        // that both sides answered; null: no interval
	QuestionsLow  *float64 `json:"questions_ci_low"` // 95 % bootstrap interval
	QuestionsHigh *float64 `json:"questions_ci_high"`

	QuestionsImprovementLow  *float64 `json:"questions_improvement_ci_low"` // that of the difference divided by the other side's mean; null: unbounded
	QuestionsImprovementHigh *float64 `json:"questions_improvement_ci_high"`
}

// Turned returns the interval of the negative difference.
func (x QuestionInterval) Turned() QuestionInterval {
	if x.Questions == nil {
		return x
	}
	low, high := -*x.QuestionsHigh, -*x.QuestionsLow
	t := QuestionInterval{Questions: x.Questions, QuestionsLow: &low, QuestionsHigh: &high}
	t.QuestionsImprovementLow, t.QuestionsImprovementHigh = TurnedImprovement(x.QuestionsImprovementLow, x.QuestionsImprovementHigh)
	return t
}

// TurnedImprovement returns the interval of b/a - 1 from that of a/b - 1. There is none if a may be 0.
func TurnedImprovement(low, high *float64) (turnedLow, turnedHigh *float64) {
	if low == nil || high == nil || !(*low > -1) {
		return nil, nil
	}
	l, h := 1/(1+*high)-1, 1/(1+*low)-1
	return &l, &h
}

// Answers holds a run's pass@k of each question. With k = 1 it is the share of right completions.
type Answers struct {
	Seed  int64
	Tasks []string // of the questions; empty: not recorded
	Right []float64
}

// Side holds the answers of one side of a difference, averaged over the runs of each seed. The zero value has none.
type Side struct {
	tasks string      // of the questions in order, joined
	seeds [][]float64 // pass@k of each question
}

// NewSide returns the side with these runs. It has no answers if those of a run are not recorded, or if the runs
// answered questions of different tasks.
func NewSide(runs []Answers) Side {
	var s Side
	bySeed := map[int64][][]float64{}
	for i, r := range runs {
		tasks := strings.Join(r.Tasks, "\n")
		if tasks == "" || i > 0 && tasks != s.tasks {
			return Side{}
		}
		s.tasks = tasks
		bySeed[r.Seed] = append(bySeed[r.Seed], r.Right)
	}
	for _, seed := range slices.Sorted(maps.Keys(bySeed)) {
		s.seeds = append(s.seeds, mean(bySeed[seed]))
	}
	return s
}

// Crossing computes intervals over seeds and questions: see sample.Crossed. Differences share the draws of questions.
// The zero value is ready to use, by one goroutine at a time.
type Crossing struct {
	drawn map[string]*sample.Crossed // by Side.tasks
}

// Interval returns the interval of a - b. It has none if a side has no answers or fewer than two seeds, or if the
// questions' tasks differ.
func (x *Crossing) Interval(a, b Side) QuestionInterval {
	if a.tasks != b.tasks || len(a.seeds) < 2 || len(b.seeds) < 2 {
		return QuestionInterval{}
	}
	if x.drawn == nil {
		x.drawn = map[string]*sample.Crossed{}
	}
	if x.drawn[a.tasks] == nil {
		x.drawn[a.tasks] = sample.NewCrossed(strings.Split(a.tasks, "\n"))
	}
	questions := len(a.seeds[0])
	low, high := x.drawn[a.tasks].Difference(a.seeds, b.seeds)
	interval := QuestionInterval{Questions: &questions, QuestionsLow: &low, QuestionsHigh: &high}
	if low, high := x.drawn[a.tasks].Improvement(a.seeds, b.seeds); !math.IsNaN(low) {
		interval.QuestionsImprovementLow, interval.QuestionsImprovementHigh = &low, &high
	}
	return interval
}

// mean returns the mean of lists of equal length, element by element.
func mean(lists [][]float64) []float64 {
	out := make([]float64, len(lists[0]))
	for _, list := range lists {
		for i, v := range list {
			out[i] += v / float64(len(lists))
		}
	}
	return out
}
