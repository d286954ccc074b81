package stats

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// TaskTable is what a run's nodes made of each task while training.
type TaskTable struct {
	Run   string    `json:"run"`
	Round []int     `json:"round"` // first round of each step
	Tasks []TaskRow `json:"tasks"` // by name
}

// TaskRow is one task.
type TaskRow struct {
	Task        string  `json:"task"`
	Completions int     `json:"completions"`
	Reward      float64 `json:"reward"` // mean over completions of the whole run; a sum that isn't finite counts as 0
	Steps       Values  `json:"steps"`  // the same of each step; NaN: no completion
}

// NewTaskTable makes the table from totals by task and step: those of one step have the same first round.
func NewTaskTable(run string, totals []store.TaskTotal) TaskTable {
	out := TaskTable{Run: run, Round: []int{}, Tasks: []TaskRow{}}
	steps := map[int]bool{}
	byTask := map[string][]store.TaskTotal{}
	for _, t := range totals {
		steps[t.Round] = true
		byTask[t.Task] = append(byTask[t.Task], t)
	}
	out.Round = slices.AppendSeq(out.Round, maps.Keys(steps))
	slices.Sort(out.Round)
	for task, list := range byTask {
		row := TaskRow{Task: task, Steps: unknown(len(out.Round))}
		sum := 0.0
		for _, t := range list {
			sum += t.RewardSum
			row.Completions += t.Completions
			if at, _ := slices.BinarySearch(out.Round, t.Round); t.Completions > 0 {
				row.Steps[at] = t.RewardSum / float64(t.Completions)
			}
		}
		row.Reward = meanReward(sum, row.Completions)
		out.Tasks = append(out.Tasks, row)
	}
	slices.SortFunc(out.Tasks, func(a, b TaskRow) int { return cmp.Compare(a.Task, b.Task) })
	return out
}

// TaskSteps returns how many rounds a step has where so many rounds make at most so many steps.
func TaskSteps(rounds, steps int) int { return max(1, (rounds+max(1, steps)-1)/max(1, steps)) }
