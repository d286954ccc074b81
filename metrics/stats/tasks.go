package stats

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// TaskTable holds the training rewards of a run by task.
type TaskTable struct {
	Run   string    `json:"run"`
	Round []int     `json:"round"` // first round of each step
	Tasks []TaskRow `json:"tasks"` // by name
}

// TaskRow is one task.
type TaskRow struct {
	Task        string  `json:"task"`
	Completions int     `json:"completions"`
	Reward      float64 `json:"reward"` // mean over all completions of the run; a non-finite sum counts as 0
	Steps       Values  `json:"steps"`  // mean of each step; NaN: no completions
}

// NewTaskTable builds the table from totals by task and step. Totals of one step have the same first round.
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

// TaskSteps returns the number of rounds per step if rounds are divided into at most the given number of steps.
func TaskSteps(rounds, steps int) int { return max(1, (rounds+max(1, steps)-1)/max(1, steps)) }
