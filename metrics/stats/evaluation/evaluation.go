// Package evaluation makes the document of a run's held-out evaluations.
package evaluation

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/heldout"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Document holds the held-out results of a run: the document of `swarm eval RUN -o json`. Rows are ordered by round.
type Document struct {
	Run        string `json:"run"`
	Experiment string `json:"experiment"`
	Config     string `json:"config"` // I/J
	Seed       int64  `json:"seed"`
	Rows       []Row  `json:"rows"`
	Tasks      []Task `json:"tasks"` // of the newest row
}

// Row is one held-out evaluation, over the nodes that answered it.
type Row struct {
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

// Task is one task's part of a row.
type Task struct {
	Task      string  `json:"task"`
	Questions int     `json:"questions"` // per node
	Reward    float64 `json:"reward"`
	Pass      []Pass  `json:"pass"`
}

// New builds the document from a run's evaluations, in any order. Rows have pass@k for each of ks between 1
// and the completions per question; the default is 1, 2, 4 …. If nodes answered different questions in one round, each
// set makes its own row. Evaluations without questions or completions are omitted, and those of nodes that only
// generate unless no node trains.
func New(run store.Run, evals []store.NodeEval, ks ...int) Document {
	out := Document{
		Run: run.Run, Experiment: run.Experiment, Config: stats.ConfigName(run), Seed: run.Seed, Rows: []Row{}, Tasks: []Task{},
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
		out.Rows = append(out.Rows, newRow(key, groups[key], ks))
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

func newRow(key evalKey, evals []store.NodeEval, ks []int) Row {
	row := Row{
		Round: key.round, Set: key.set, Nodes: len(evals), Generations: key.generations, RewardLow: math.Inf(1), RewardHigh: math.Inf(-1),
	}
	var all []event.EvalQuestion
	var formats, lengths []float64
	for _, e := range evals {
		all = append(all, e.Questions...)
		row.Questions = max(row.Questions, len(e.Questions))
		reward := stats.EvalReward(e.Questions, key.generations)
		row.RewardLow, row.RewardHigh = min(row.RewardLow, reward), max(row.RewardHigh, reward)
		formats, lengths = append(formats, e.FormatRate), append(lengths, e.MeanLength)
	}
	row.Reward = stats.EvalReward(all, key.generations)
	row.Pass = Passes(all, key.generations, ks...)
	row.FormatRate, row.MeanLength = stats.Optional(sample.Mean(formats)), stats.Optional(sample.Mean(lengths))
	return row
}

func taskEvaluations(key evalKey, evals []store.NodeEval, ks []int) []Task {
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
	var out []Task
	for _, task := range slices.Sorted(maps.Keys(byTask)) {
		questions := byTask[task]
		out = append(out, Task{Task: task, Questions: perNode[task], Reward: stats.EvalReward(questions, key.generations),
			Pass: Passes(questions, key.generations, ks...)})
	}
	return out
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
			sum += heldout.PassAtK(generations, q.Correct, k)
		}
		out = append(out, Pass{K: k, Value: sum / float64(len(questions))})
	}
	return out
}
