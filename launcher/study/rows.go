package study

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// rows are the sweep's runs as the database has them.
func (s *Sweep) rows(ctx context.Context) ([]stats.SweepRow, error) {
	var runs []store.Totals
	if s.reader != nil {
		var err error
		if runs, err = s.reader.Runs(ctx, store.Filter{}); err != nil {
			return nil, err
		}
	}
	var rows []stats.SweepRow
	for _, item := range s.items {
		row, err := s.row(ctx, item)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	if s.judge != nil {
		return rows, s.predict(ctx, rows)
	}
	if !slices.ContainsFunc(rows, func(r stats.SweepRow) bool { return r.SecondsPerRound != nil || r.ActiveSeconds > 0 }) {
		for i, item := range s.items {
			rows[i].SecondsPerRound = similarPace(item, runs)
		}
	}
	return rows, nil
}

// predict gives the rows of a study or a grid that have no pace of their own that of rounds measured here, made up for
// their split and evaluations.
func (s *Sweep) predict(ctx context.Context, rows []stats.SweepRow) error {
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

// RecordedRow is what the database has of an experiment's run with a seed. A run that is done and goes on to more
// rounds counts as stopped.
func RecordedRow(ctx context.Context, reader *store.Reader, name string, c configs.Config) (row stats.SweepRow, imported bool, err error) {
	row = stats.SweepRow{Experiment: c.Experiment, Config: name, Seed: c.Seed, State: stats.SweepPending, Rounds: c.Rounds}
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
		return row, true, nil // neither its time nor its money was this machine's
	}
	row.SecondsPerRound, row.ActiveSeconds = status.SecondsPerRound, status.ElapsedSeconds
	if status.Rounds == row.Rounds { // else this sweep prolongs it
		row.ETASeconds = status.ETASeconds
	}
	if row.State == store.RunDone && run.Rounds != row.Rounds {
		row.State = store.RunStopped // it goes on to the rounds that are asked for now
	}
	return row, false, nil
}

// row is one item's. Its state is that of the sweep: a run that failed before this sweep is left, like one that was
// stopped.
func (s *Sweep) row(ctx context.Context, item *Item) (stats.SweepRow, error) {
	row, imported, err := RecordedRow(ctx, s.reader, item.Name, item.p.Config)
	if err != nil || imported || s.reader == nil {
		return row, err
	}
	switch {
	case item.refused:
		row.State = store.RunFailed
	case row.State == store.RunDone:
	case item.failed() && item.code < fail.ExitSignal && row.State != store.RunLost:
		row.State = store.RunFailed // also what was refused before it was recorded, or was killed
	case !item.failed() && (row.State == store.RunFailed || row.State == store.RunLost):
		row.State = store.RunStopped
	}
	return row, nil
}

// similarPace is the seconds a round of the newest run that computed as much a round as the item will; nil: there is
// none.
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

// workOf is what decides how long a round takes, by the experiment's configuration.
func workOf(c configs.Config) any {
	return [...]any{
		c.Model, c.Models, c.NumTrainSamples, c.NumTransplantTrees, c.Split, c.NumGenerations, c.MaxPromptLength, c.MaxCompletionLength, c.NumIterations,
		c.Precision, c.GradientCheckpointing, c.OptimizerOffload, c.ParamOffload, c.Share,
	}
}
