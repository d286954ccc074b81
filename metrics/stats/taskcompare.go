package stats

import (
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// TaskComparison is one task in the rows of a Comparison.
type TaskComparison struct {
	Task    string       `json:"task"`
	Rewards []TaskReward `json:"rewards"` // by Comparison.Rows
}

// TaskReward is what a row made of a task while training: the mean reward of a completion, over its seeds.
type TaskReward struct {
	Experiment  string   `json:"experiment"`
	Reward      *float64 `json:"reward"`      // null: no completion
	Improvement *float64 `json:"improvement"` // over the baseline
	Completions int      `json:"completions"` // over its runs
}

// addTasks adds the rewards by task of the rows that are shown.
func (c *Comparison) addTasks(groups []group, totals map[string][]store.TaskTotal) {
	byRun := map[string]map[string]TaskRow{}
	names := map[string]bool{}
	for run, list := range totals {
		byRun[run] = map[string]TaskRow{}
		for _, t := range NewTaskTable(run, list).Tasks {
			byRun[run][t.Task] = t
			names[t.Task] = true
		}
	}
	byName := map[string]group{}
	for _, g := range groups {
		byName[g.name] = g
	}
	for _, task := range slices.Sorted(maps.Keys(names)) {
		reward := func(r store.Totals) (float64, bool) {
			t, ok := byRun[r.Run.Run][task]
			return t.Reward, ok && t.Completions > 0
		}
		baseline := Mean(byName[c.Baseline].perSeed(reward))
		x := TaskComparison{Task: task, Rewards: []TaskReward{}}
		for _, row := range c.Rows {
			g := byName[row.Experiment]
			mean := Mean(g.perSeed(reward))
			cell := TaskReward{Experiment: g.name, Reward: optional(mean)}
			if g.name != c.Baseline {
				cell.Improvement = optional(Improvement(mean, baseline))
			}
			for _, r := range g.runs {
				cell.Completions += byRun[r.Run.Run][task].Completions
			}
			x.Rewards = append(x.Rewards, cell)
		}
		c.Tasks = append(c.Tasks, x)
	}
}
