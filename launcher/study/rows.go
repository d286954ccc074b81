package study

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/stats/sweep"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// rows returns the sweep's runs as recorded in the database.
func (s *Sweep) rows(ctx context.Context) ([]sweep.Row, error) {
	var runs []store.Totals
	if s.reader != nil {
		var err error
		if runs, err = s.reader.Runs(ctx, store.Filter{}); err != nil {
			return nil, err
		}
	}
	var rows []sweep.Row
	for _, item := range s.items {
		row, err := s.row(ctx, item)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	if s.judge != nil || s.pilots != nil {
		return rows, s.predict(ctx, rows)
	}
	if !slices.ContainsFunc(rows, func(r sweep.Row) bool { return r.SecondsPerRound != nil || r.ActiveSeconds > 0 }) {
		for i, item := range s.items {
			rows[i].SecondsPerRound = similarPace(item, runs)
		}
	}
	return rows, nil
}

// predict sets the pace of rows without one, for a study, a grid or pilots. It uses rounds measured here, adjusted for
// the split and the evaluations.
func (s *Sweep) predict(ctx context.Context, rows []sweep.Row) error {
	if s.reader == nil {
		return nil
	}
	known := map[string]*float64{} // by experiment
	for i, item := range s.items {
		if rows[i].State == store.RunDone || rows[i].SecondsPerRound != nil || item.done {
			continue
		}
		pace, ok := known[item.Name]
		if !ok {
			cost, err := costOfRun(ctx, s.reader, item.p)
			if err != nil {
				return err
			}
			if cost.Seconds != nil && cost.Source == rateMeasured {
				each := *cost.Seconds / float64(cost.Rounds)
				pace = &each
			}
			known[item.Name] = pace
		}
		rows[i].SecondsPerRound = pace
	}
	return nil
}

// RecordedRow returns the recorded run of an experiment with a seed. A run that is done counts as stopped if the
// configuration has another number of rounds. A run that its alarm stopped stays stopped if the configuration stops
// such runs.
func RecordedRow(ctx context.Context, reader *store.Reader, name string, c configs.Config) (row sweep.Row, imported bool, err error) {
	row = sweep.Row{Experiment: c.Experiment, Config: name, Seed: c.Seed, State: sweep.Pending, Rounds: c.Rounds}
	if reader == nil {
		return row, false, nil
	}
	run, err := reader.FindRun(ctx, c.Experiment, c.Seed)
	if err == nil && run == nil {
		run, err = reader.FindImported(ctx, c.Experiment, c.Seed, c.Rounds)
	}
	if err != nil || run == nil {
		return row, false, err
	}
	status, err := lifecycle.Status(ctx, reader, run.Run)
	if err != nil {
		return row, false, err
	}
	row.Run, row.State, row.Round = run.Run, status.State, status.Round
	row.CumulativeReward = status.CumulativeReward
	if run.Imported() {
		return row, true, nil // its time and cost are another machine's
	}
	row.SecondsPerRound, row.ActiveSeconds = status.SecondsPerRound, status.ElapsedSeconds
	if status.Rounds == row.Rounds { // otherwise this sweep extends it
		row.ETASeconds = status.ETASeconds
	}
	if row.State == store.RunDone && run.Rounds != row.Rounds {
		row.State = store.RunStopped // this sweep extends it
	}
	row.StoppedByAlarm = run.StoppedByAlarm() && c.OnAlarm == configs.AlarmStop
	return row, false, nil
}

// row returns one item's row. Its state is relative to this sweep: a run that failed before this sweep counts as
// stopped.
func (s *Sweep) row(ctx context.Context, item *Item) (sweep.Row, error) {
	row, imported, err := RecordedRow(ctx, s.reader, item.Name, item.p.Config)
	if err != nil || imported || s.reader == nil {
		return row, err
	}
	switch {
	case item.refused:
		row.State = store.RunFailed
	case row.State == store.RunDone, row.StoppedByAlarm:
	case item.failed() && item.code < fail.ExitSignal && row.State != store.RunLost:
		row.State = store.RunFailed // including runs that were refused before they were recorded, and killed ones
	case !item.failed() && (row.State == store.RunFailed || row.State == store.RunLost):
		row.State = store.RunStopped
	}
	return row, nil
}

// similarPace returns the seconds per round of the newest run with the same work per round as the item, or nil.
func similarPace(item *Item, runs []store.Totals) *float64 {
	for _, t := range slices.Backward(runs) {
		var c configs.Config
		if t.Imported() || t.RoundsDone < 2 || t.ActiveSeconds <= 0 || json.Unmarshal(t.Config, &c) != nil {
			continue
		}
		if t.Device == item.p.Plan.Device && t.Run.Nodes == item.p.Plan.Nodes && workOf(c) == workOf(item.p.Config) {
			pace := t.ActiveSeconds / float64(t.RoundsDone)
			return &pace
		}
	}
	return nil
}

// workOf returns the settings that determine the duration of a round.
func workOf(c configs.Config) any {
	return [...]any{
		c.Model, c.Models, c.NumTrainSamples, c.NumTransplantTrees, c.Split, c.NumGenerations, c.MaxPromptLength, c.MaxCompletionLength, c.NumIterations,
		c.Precision, c.GradientCheckpointing, c.OptimizerOffload, c.ParamOffload, c.Share,
	}
}
