package query

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// CompareOptions select the runs to compare, and how to compare them.
type CompareOptions struct {
	Names []string // experiments; empty: all
	stats.CompareOptions

	// Alive reports whether the coordinator of a running run is alive, as far as this host can see; nil: all are.
	Alive func(store.Snapshot) bool
}

// experiments returns the names of the requested experiments; empty: all.
func (o CompareOptions) experiments() []string {
	switch {
	case o.Study != nil:
		return o.Study.Experiments()
	case o.Baseline != "" && len(o.Names) > 0:
		return append(slices.Clone(o.Names), o.Baseline)
	}
	return o.Names
}

// Runs reads the requested runs, by start time. For a study it reads only the runs of its arms, whatever Names
// contains.
func (o CompareOptions) Runs(ctx context.Context, reader *store.Reader) ([]store.Totals, error) {
	return reader.Runs(ctx, store.Filter{Experiments: o.experiments()})
}

// Compare compares experiments (`swarm compare`). It reads sums that the store maintains. Its cost grows with runs and
// nodes. It reads rounds only with Target or Tasks, or for runs that are longer than those they are compared with, and
// results by question only with Questions. The error is an *UnknownError for a name without runs.
func Compare(ctx context.Context, reader *store.Reader, o CompareOptions) (stats.Comparison, error) {
	var runs stats.Runs
	var err error
	if o.Differ == nil {
		o.Differ = Differ()
	}
	if o.Key == nil {
		o.Key = ConfigKey
	}
	if runs.Totals, err = o.Runs(ctx, reader); err != nil {
		return stats.Comparison{}, err
	}
	if err := markCrashed(ctx, reader, runs.Totals, o.Alive); err != nil {
		return stats.Comparison{}, err
	}
	names := o.Names
	if o.Study != nil {
		names = nil // the study's verdict reports missing experiments
	}
	for _, name := range names { // with groups by configuration, the baseline may be a group's name
		if !slices.ContainsFunc(runs.Totals, func(r store.Totals) bool { return r.Experiment == name }) {
			return stats.Comparison{}, &UnknownError{name}
		}
	}
	if o.Study == nil && len(o.Seeds) > 0 { // a study shows its other seeds beside them
		runs.Totals = slices.DeleteFunc(runs.Totals, func(r store.Totals) bool { return !slices.Contains(o.Seeds, r.Seed) })
		if len(runs.Totals) == 0 {
			return stats.Comparison{}, &configs.Error{Key: "seeds", Value: fmt.Sprint(o.Seeds), Allowed: "seeds of recorded runs"}
		}
	}
	if runs.Evals, err = reader.NewestEvals(ctx); err != nil {
		return stats.Comparison{}, err
	}
	if o.Study != nil {
		if runs.ModelEvals, err = reader.NewestEvalsByModel(ctx); err != nil {
			return stats.Comparison{}, err
		}
	}
	if err := addPerRun(ctx, reader, &runs, o.CompareOptions); err != nil {
		return stats.Comparison{}, err
	}
	needs, err := stats.NeedsOf(runs, o.CompareOptions)
	if err != nil {
		return stats.Comparison{}, &UnknownError{o.Baseline}
	}
	if err := addNeeds(ctx, reader, &runs, needs, o.CompareOptions); err != nil {
		return stats.Comparison{}, err
	}
	if err := addQuestions(ctx, reader, &runs, o.CompareOptions); err != nil {
		return stats.Comparison{}, err
	}
	c, err := stats.Compare(runs, o.CompareOptions)
	if err != nil {
		return c, &UnknownError{o.Baseline}
	}
	wording.Comparison(&c)
	return c, nil
}

// markCrashed sets the state of running runs whose coordinator is gone, as every status does.
func markCrashed(ctx context.Context, reader *store.Reader, runs []store.Totals, alive func(store.Snapshot) bool) error {
	for i := range runs {
		if alive == nil || runs[i].State != store.RunRunning {
			continue
		}
		snapshot, err := reader.Snapshot(ctx, runs[i].Run.Run)
		if err != nil {
			return err
		}
		if snapshot.Run.State == store.RunRunning && !alive(snapshot) {
			runs[i].State = stats.StateCrashed
		}
	}
	return nil
}

// UnknownError reports a name without runs. It is a store.ErrNotFound.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string { return fmt.Sprintf("%q: %v", e.Name, store.ErrNotFound) }
func (e *UnknownError) Unwrap() error { return store.ErrNotFound }

// addPerRun reads the data of each counted run that the options require.
func addPerRun(ctx context.Context, reader *store.Reader, runs *stats.Runs, o stats.CompareOptions) error {
	if o.Target == 0 && !o.Tasks {
		return nil
	}
	runs.Reaches, runs.Tasks = map[string]stats.Reach{}, map[string][]store.TaskTotal{}
	for _, r := range stats.Counted(runs.Totals, o) {
		if o.Target != 0 {
			reach, err := reachOf(ctx, reader, r.Run, o)
			if err != nil {
				return err
			}
			runs.Reaches[r.Run.Run] = reach
		}
		if o.Tasks {
			totals, err := reader.TaskTotals(ctx, r.Run.Run, 0)
			if err != nil {
				return err
			}
			runs.Tasks[r.Run.Run] = totals
		}
	}
	return nil
}

// addNeeds reads the data to compare runs of different length over their common rounds, and a study's held-out
// evaluations with their cost.
func addNeeds(ctx context.Context, reader *store.Reader, runs *stats.Runs, needs stats.Needs, o stats.CompareOptions) error {
	runs.Sums, runs.EvalRounds = map[string]map[int]store.RewardSum{}, map[string][]store.EvalTotal{}
	runs.TaskCuts = map[string]map[int][]store.TaskTotal{}
	for run, rounds := range needs.Sums {
		var err error
		if runs.Sums[run], err = reader.RewardSums(ctx, run, rounds); err != nil {
			return err
		}
		runs.TaskCuts[run] = map[int][]store.TaskTotal{}
		for _, end := range rounds {
			if !o.Tasks || end < 1 {
				continue
			}
			totals, err := reader.TaskTotals(ctx, run, end)
			if err != nil {
				return err
			}
			runs.TaskCuts[run][end] = slices.DeleteFunc(totals, func(t store.TaskTotal) bool { return t.Round > 0 })
		}
	}
	for _, run := range needs.Evals {
		var err error
		if runs.EvalRounds[run], err = reader.EvalTotals(ctx, run); err != nil {
			return err
		}
	}
	runs.HeldOut = map[string]stats.HeldOutSeries{}
	for _, t := range runs.Totals {
		if !slices.Contains(needs.HeldOut, t.Run.Run) {
			continue
		}
		var err error
		if runs.HeldOut[t.Run.Run], err = heldOutSeries(ctx, reader, t.Run); err != nil {
			return err
		}
	}
	return nil
}

// addQuestions reads the results by question of the compared evaluations, and with Tasks those by the node that
// answers.
func addQuestions(ctx context.Context, reader *store.Reader, runs *stats.Runs, o stats.CompareOptions) error {
	needed, err := stats.QuestionsNeeded(*runs, o)
	if err != nil {
		return err
	}
	runs.Questions, runs.Answered = map[string]map[int][]store.QuestionTotal{}, map[string]map[int]stats.AnswerCounts{}
	for _, e := range needed {
		totals, err := reader.QuestionTotals(ctx, e)
		if err != nil {
			return err
		}
		if runs.Questions[e.Run] == nil {
			runs.Questions[e.Run], runs.Answered[e.Run] = map[int][]store.QuestionTotal{}, map[int]stats.AnswerCounts{}
		}
		runs.Questions[e.Run][e.Round] = totals
		if !o.Tasks || totals == nil { // incomplete answers count nowhere
			continue
		}
		if runs.Answered[e.Run][e.Round], err = answerCounts(ctx, reader, runs.Totals, e); err != nil {
			return err
		}
	}
	return nil
}

// answerCounts reads an evaluation's completions by task, and by whether the node that answered draws it.
func answerCounts(ctx context.Context, reader *store.Reader, runs []store.Totals, e store.EvalTotal) (stats.AnswerCounts, error) {
	var c configs.Config
	i := slices.IndexFunc(runs, func(t store.Totals) bool { return t.Run.Run == e.Run })
	if i < 0 || json.Unmarshal(runs[i].Config, &c) != nil {
		c = configs.Config{} // of another trainer: its nodes draw all tasks
	}
	totals, err := reader.NodeTaskTotals(ctx, e)
	counts := stats.AnswerCounts{}
	var tasks []string
	for i, t := range totals {
		if i == 0 || t.Node != totals[i-1].Node {
			tasks = c.TasksOf(t.Node)
		}
		counts.Add(t.Task, tasks == nil || slices.Contains(tasks, t.Task), t.Completions, t.Correct)
	}
	return counts, err
}

func reachOf(ctx context.Context, reader *store.Reader, run store.Run, o stats.CompareOptions) (stats.Reach, error) {
	bands, err := reader.RoundBands(ctx, run.Run, "reward", 0)
	if err != nil {
		return stats.Reach{}, err
	}
	attempts, err := reader.Attempts(ctx, run.Run)
	if err != nil {
		return stats.Reach{}, err
	}
	devices, err := reader.Devices(ctx, run.Run, 0)
	if err != nil {
		return stats.Reach{}, err
	}
	window := o.Window
	if window < 1 {
		window = stats.PaperWindow
	}
	return stats.NewReach(run, bands, attempts, devices, o.Target, window), nil
}
