package report

import (
	"context"
	"math"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/times"
	"github.com/sapo-swarm/swarm/metrics/stats/workers"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// read fills in a run. Totals and Drawn must be set.
func (run *Run) read(ctx context.Context, reader *store.Reader, o Options, eval store.EvalTotal) error {
	row := run.Totals.Run
	snapshot, err := reader.Snapshot(ctx, row.Run)
	if err != nil {
		return err
	}
	run.Status = query.Status(snapshot, o.Now, o.Alive(snapshot, o.Now))
	run.Row = stats.NewRunRow(run.Totals, run.Status, eval)
	if len(snapshot.Workers) > 0 {
		rollouts, err := reader.WorkerRollouts(ctx, row.Run)
		if err != nil {
			return err
		}
		run.Workers = workers.Rows(snapshot, rollouts)
	}
	if run.Resources, err = query.Resources(ctx, reader, row, run.Status); err != nil {
		return err
	}
	if run.Evaluations, err = query.Evaluations(ctx, reader, row); err != nil {
		return err
	}
	if run.Events, err = events(ctx, reader, row.Run); err != nil {
		return err
	}
	rewards, err := query.ReadRounds(ctx, reader, row, "reward")
	if err != nil {
		return err
	}
	run.Smooth = rewards.Curve(stats.CurveOptions{Window: o.Window, Points: nodePoints})
	window := stats.TaskSteps(run.Smooth.Rounds, slots)
	run.Times.Run = row.Run
	for _, metric := range times.Metrics() {
		rounds, err := query.ReadRounds(ctx, reader, row, metric)
		if err != nil {
			return err
		}
		run.Times.Parts = append(run.Times.Parts, times.Part{Metric: metric, Spread: rounds.Spread()})
		if run.Drawn {
			run.Parts = append(run.Parts, stretches(rounds, window))
		}
	}
	if !run.Drawn {
		return nil
	}
	run.Raw = rewards.Curve(stats.CurveOptions{Window: 1, Points: rawPoints})
	return run.readCharts(ctx, reader, window)
}

// readCharts reads the data that only a run's own charts need. Stretches have window rounds.
func (run *Run) readCharts(ctx context.Context, reader *store.Reader, window int) error {
	row := run.Totals.Run
	for metric, into := range map[string]*stats.Curve{"trained_own": &run.Own, "trained_external": &run.Others} {
		groups, err := query.ReadRounds(ctx, reader, row, metric)
		if err != nil {
			return err
		}
		*into = stretches(groups, window)
	}
	var err error
	if run.Split, err = readSplit(ctx, reader, row, window); err != nil {
		return err
	}
	if run.Peers, err = reader.PeerTotals(ctx, row.Run); err != nil {
		return err
	}
	run.Slot = slotFor(run.Status.LastSeen - run.Status.Started)
	if run.Memory, err = reader.Memory(ctx, row.Run, 0, run.Slot); err != nil {
		return err
	}
	run.Devices, err = reader.Devices(ctx, row.Run, 0)
	return err
}

// stretches averages a metric's curve over consecutive stretches of window rounds, each placed at its last round. It
// uses a moving average of that width and keeps the value at the end of each stretch. All curves of one run therefore
// have the same rounds, unlike after thinning by extremes.
func stretches(rounds query.Rounds, window int) stats.Curve {
	curve := rounds.Curve(stats.CurveOptions{Window: window})
	if window < 2 {
		return curve
	}
	keep := func(values stats.Values) stats.Values {
		var out stats.Values
		for i := window - 1; i < len(values); i += window {
			out = append(out, values[i])
		}
		return out
	}
	var last []int
	for i := window - 1; i < len(curve.Round); i += window {
		last = append(last, curve.Round[i])
	}
	curve.Round, curve.Time = last, keep(curve.Time)
	curve.Mean, curve.Low, curve.High = keep(curve.Mean), keep(curve.Low), keep(curve.High)
	for i, n := range curve.Nodes {
		curve.Nodes[i].Values = keep(n.Values)
	}
	return curve
}

// slotFor returns the length of a slot of memory samples in seconds, a multiple of the recorded 10.
func slotFor(seconds float64) int {
	return 10 * max(1, int(math.Ceil(seconds/slots/10)))
}

// events reads a run's timeline without spawns, which are frequent and uninformative.
func events(ctx context.Context, reader *store.Reader, run string) ([]store.Entry, error) {
	const page = 1000
	var kept []store.Entry
	for after := int64(0); ; {
		entries, err := reader.Timeline(ctx, run, after, page)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Event.Type != event.TypeSpawn {
				kept = append(kept, e)
			}
		}
		if len(entries) < page {
			return kept, nil
		}
		after = entries[len(entries)-1].ID
	}
}
