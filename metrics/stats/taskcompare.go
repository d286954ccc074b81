package stats

import (
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/stats/heldout"
	"github.com/sapo-swarm/swarm/metrics/stats/sample"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// TaskComparison is one task in the rows of a Comparison.
type TaskComparison struct {
	Task    string       `json:"task"`
	Rewards []TaskReward `json:"rewards"` // by Comparison.Rows
}

// TaskReward is a row's reward in one task during training: the mean reward per completion, over its seeds.
type TaskReward struct {
	Experiment  string   `json:"experiment"`
	Reward      *float64 `json:"reward"`      // null: no completions
	Improvement *float64 `json:"improvement"` // over the baseline; null if the row draws other questions than it
	Completions int      `json:"completions"` // sum over its runs
	Pass        *float64 `json:"pass"`        // held-out pass@1 in the task, where runs are compared; null: no results by question
}

// DrawnPass is a row's held-out pass@1 by whether the node that answers draws questions of that task itself
// (nodes.tasks): the mean over its seeds.
type DrawnPass struct {
	Experiment string   `json:"experiment"`
	Own        *float64 `json:"own"`    // tasks that it draws
	Others     *float64 `json:"others"` // tasks that it does not draw; null: it draws all
}

// passIn returns the mean over a group's seeds of pass@1 in the selected kinds of questions.
func (g group) passIn(parts func(store.Totals) []evalPart, runs Runs, selected func(heldout.Asked) bool) *float64 {
	return Optional(sample.Mean(g.perSeed(func(t store.Totals) (pass float64, known bool) {
		for _, part := range parts(t) {
			share, answered := runs.Answered[part.eval.Run][part.eval.Round].Share(selected)
			if pass, known = pass+part.weight*share, answered; !known {
				break
			}
		}
		return pass, known
	})))
}

// tasks returns a run's results by task over its first rounds.
func (r Runs) tasks(t store.Totals, rounds int) map[string]TaskRow {
	totals := r.Tasks[t.Run.Run]
	if reached(t) > rounds {
		totals = r.TaskCuts[t.Run.Run][rounds]
	}
	rows := map[string]TaskRow{}
	for _, row := range NewTaskTable(t.Run.Run, totals).Tasks {
		rows[row.Task] = row
	}
	return rows
}

// addTasks adds the rewards and held-out pass@1 by task of the shown rows. Rewards cover the span of the row,
// improvements the span of its pair.
func (c *Comparison) addTasks(f frame, spans []span, runs Runs, o CompareOptions) {
	names := map[string]bool{}
	byRun := map[int]map[string]map[string]TaskRow{}
	at := func(rounds int, r store.Totals, task string) TaskRow {
		if byRun[rounds] == nil {
			byRun[rounds] = map[string]map[string]TaskRow{}
		}
		if byRun[rounds][r.Run.Run] == nil {
			byRun[rounds][r.Run.Run] = runs.tasks(r, rounds)
		}
		return byRun[rounds][r.Run.Run][task]
	}
	place := map[string]int{}
	for i, g := range f.groups {
		place[g.name] = i
		for _, r := range g.runs {
			at(spans[i].rounds, r, "")
			for task := range byRun[spans[i].rounds][r.Run.Run] {
				names[task] = true
			}
		}
	}
	drawsOther := func(row string) bool {
		return slices.ContainsFunc(c.Pairs, func(p Pair) bool { return p.A == row && p.B == c.Baseline && len(drawn(p)) > 0 })
	}
	pass := func(row string, selected func(heldout.Asked) bool) *float64 {
		i := place[row]
		return f.groups[i].passIn(o.evalParts(runs, spans[i], f.set), runs, selected)
	}
	for _, task := range slices.Sorted(maps.Keys(names)) {
		reward := func(rounds int) func(r store.Totals) (float64, bool) {
			return func(r store.Totals) (float64, bool) {
				t := at(rounds, r, task)
				return t.Reward, t.Completions > 0
			}
		}
		x := TaskComparison{Task: task, Rewards: []TaskReward{}}
		for _, row := range c.Rows {
			i := place[row.Name]
			g, rounds := f.groups[i], spans[i].rounds
			mean := sample.Mean(g.perSeed(reward(rounds)))
			cell := TaskReward{Experiment: g.name, Reward: Optional(mean)}
			if f.base >= 0 && i != f.base && row.Improvement != nil && !drawsOther(row.Name) {
				cell.Improvement = Optional(Improvement(mean, sample.Mean(f.groups[f.base].perSeed(reward(rounds)))))
			}
			for _, r := range g.runs {
				cell.Completions += at(rounds, r, task).Completions
			}
			cell.Pass = pass(row.Name, func(k heldout.Asked) bool { return k.Task == task })
			x.Rewards = append(x.Rewards, cell)
		}
		c.Tasks = append(c.Tasks, x)
	}
	for _, row := range c.Rows {
		c.Drawn = append(c.Drawn, DrawnPass{row.Name,
			pass(row.Name, func(k heldout.Asked) bool { return k.Own }), pass(row.Name, func(k heldout.Asked) bool { return !k.Own })})
	}
	if !slices.ContainsFunc(c.Drawn, func(d DrawnPass) bool { return d.Others != nil }) {
		c.Drawn = nil
	}
}
