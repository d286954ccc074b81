package stats

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Evaluations holds the held-out results of a run: the document of `swarm eval RUN -o json`. Rows are ordered by round.
type Evaluations struct {
	Run        string           `json:"run"`
	Experiment string           `json:"experiment"`
	Config     string           `json:"config"` // I/J
	Seed       int64            `json:"seed"`
	Rows       []EvaluationRow  `json:"rows"`
	Tasks      []TaskEvaluation `json:"tasks"` // of the newest row
}

// EvaluationRow is one held-out evaluation, over the nodes that answered it.
type EvaluationRow struct {
	Round       int      `json:"round"` // rounds that the weights were trained for
	Set         string   `json:"set"`
	Nodes       int      `json:"nodes"`
	Questions   int      `json:"questions"` // per node
	Generations int      `json:"generations"`
	Reward      float64  `json:"reward"`      // mean over nodes, questions and completions; non-finite rewards count as 0
	RewardLow   float64  `json:"reward_low"`  // worst node
	RewardHigh  float64  `json:"reward_high"` // best node
	Pass        []Pass   `json:"pass"`        // k = 1, 2, 4 … up to generations
	FormatRate  *float64 `json:"format_rate"` // null: not finite
	MeanLength  *float64 `json:"completions_mean_length"`
}

// Pass is pass@k: the probability that at least one of k completions of a question is right.
type Pass struct {
	K     int     `json:"k"`
	Value float64 `json:"value"` // mean over questions and nodes
}

// TaskEvaluation is one task's part of a row.
type TaskEvaluation struct {
	Task      string  `json:"task"`
	Questions int     `json:"questions"` // per node
	Reward    float64 `json:"reward"`
	Pass      []Pass  `json:"pass"`
}

// NewEvaluations builds the document from a run's evaluations, in any order. Rows have pass@k for each of ks between 1
// and the completions per question; the default is 1, 2, 4 …. If nodes answered different questions in one round, each
// set makes its own row. Evaluations without questions or completions are omitted, and those of nodes that only
// generate unless no node trains.
func NewEvaluations(run store.Run, evals []store.NodeEval, ks ...int) Evaluations {
	out := Evaluations{
		Run: run.Run, Experiment: run.Experiment, Config: ConfigName(run), Seed: run.Seed, Rows: []EvaluationRow{}, Tasks: []TaskEvaluation{},
	}
	groups := map[evalKey][]store.NodeEval{}
	trained := slices.ContainsFunc(evals, func(e store.NodeEval) bool { return !e.GenerateOnly })
	for _, e := range evals {
		if len(e.Questions) > 0 && e.Generations > 0 && !(trained && e.GenerateOnly) {
			key := evalKey{e.Round, e.Set, e.Generations}
			groups[key] = append(groups[key], e)
		}
	}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b evalKey) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(len(groups[a]), len(groups[b])), cmp.Compare(a.set, b.set),
			cmp.Compare(a.generations, b.generations))
	})
	for i, key := range keys {
		out.Rows = append(out.Rows, newEvaluationRow(key, groups[key], ks))
		if i == len(keys)-1 {
			out.Tasks = taskEvaluations(key, groups[key], ks)
		}
	}
	return out
}

type evalKey struct {
	round       int
	set         string
	generations int
}

func newEvaluationRow(key evalKey, evals []store.NodeEval, ks []int) EvaluationRow {
	row := EvaluationRow{
		Round: key.round, Set: key.set, Nodes: len(evals), Generations: key.generations, RewardLow: math.Inf(1), RewardHigh: math.Inf(-1),
	}
	var all []event.EvalQuestion
	var formats, lengths []float64
	for _, e := range evals {
		all = append(all, e.Questions...)
		row.Questions = max(row.Questions, len(e.Questions))
		reward := EvalReward(e.Questions, key.generations)
		row.RewardLow, row.RewardHigh = min(row.RewardLow, reward), max(row.RewardHigh, reward)
		formats, lengths = append(formats, e.FormatRate), append(lengths, e.MeanLength)
	}
	row.Reward = EvalReward(all, key.generations)
	row.Pass = Passes(all, key.generations, ks...)
	row.FormatRate, row.MeanLength = Optional(sample.Mean(formats)), Optional(sample.Mean(lengths))
	return row
}

func taskEvaluations(key evalKey, evals []store.NodeEval, ks []int) []TaskEvaluation {
	byTask := map[string][]event.EvalQuestion{}
	perNode := map[string]int{}
	for _, e := range evals {
		own := map[string]int{}
		for _, q := range e.Questions {
			byTask[q.Task] = append(byTask[q.Task], q)
			own[q.Task]++
			perNode[q.Task] = max(perNode[q.Task], own[q.Task])
		}
	}
	var out []TaskEvaluation
	for _, task := range slices.Sorted(maps.Keys(byTask)) {
		questions := byTask[task]
		out = append(out, TaskEvaluation{Task: task, Questions: perNode[task], Reward: EvalReward(questions, key.generations),
			Pass: Passes(questions, key.generations, ks...)})
	}
	return out
}

// EvalReward returns the mean reward per completion over questions with that many completions each. A non-finite sum
// counts as 0.
func EvalReward(questions []event.EvalQuestion, generations int) float64 {
	sum := 0.0
	for _, q := range questions {
		if units.Finite(q.RewardSum) {
			sum += q.RewardSum
		}
	}
	return meanReward(sum, len(questions)*generations)
}

// evalReward returns the mean reward of an evaluation over nodes, questions and completions, or nil if it has none.
func evalReward(e store.EvalTotal) *float64 {
	completions := e.Questions * e.Generations
	if completions == 0 {
		return nil
	}
	return Optional(meanReward(e.RewardSum, completions))
}

// meanReward returns sum / completions, or 0 if the result is not finite.
func meanReward(sum float64, completions int) float64 {
	if mean := sum / float64(completions); units.Finite(mean) {
		return mean
	}
	return 0
}

// Passes returns pass@k, the mean over questions with generations completions each, for each of ks between 1 and
// generations. The default for ks is 1, 2, 4 ….
func Passes(questions []event.EvalQuestion, generations int, ks ...int) []Pass {
	if len(ks) == 0 {
		for k := 1; k <= generations; k *= 2 {
			ks = append(ks, k)
		}
	}
	out := []Pass{}
	for _, k := range ks {
		if k < 1 || k > generations || len(questions) == 0 {
			continue
		}
		sum := 0.0
		for _, q := range questions {
			sum += PassAtK(generations, q.Correct, k)
		}
		out = append(out, Pass{K: k, Value: sum / float64(len(questions))})
	}
	return out
}

// PassAtK is an unbiased estimate of the probability that at least one of k completions is right, given that c of n
// completions are: 1 - C(n-c, k)/C(n, k) (Chen et al. 2021, arXiv:2107.03374), computed as a product to avoid overflow.
// c is clamped to 0..n. The result is NaN for k outside 1..n.
func PassAtK(n, c, k int) float64 {
	if k < 1 || k > n {
		return math.NaN()
	}
	c = min(max(0, c), n)
	if n-c < k {
		return 1
	}
	if k < c { // the formula is symmetric in c and k: the fewer factors
		c, k = k, c
	}
	none := 1.0
	for i := n - c + 1; i <= n; i++ {
		none *= 1 - float64(k)/float64(i)
	}
	return 1 - none
}
