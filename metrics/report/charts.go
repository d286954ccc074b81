package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
)

// charts returns all charts of a report, by their name in the page.
func (r *Report) charts() map[string]chart {
	out := map[string]chart{"smoothed": r.smoothed()}
	if evaluations := r.evaluations(); len(evaluations.Axes) > 0 {
		out["evaluations"] = evaluations
	}
	if splits := r.splits(); len(splits.Curves) > 0 {
		out["splits"] = splits
	}
	highest, smooth := 0.0, 0.0
	for _, run := range r.Drawn() {
		highest, smooth = highestOf(highest, run.Raw), highestOf(smooth, run.Smooth)
	}
	for i, run := range r.Runs {
		if !run.Drawn || run.Totals.NodeRounds == 0 {
			continue
		}
		name := func(kind string) string { return fmt.Sprintf("%s-%d", kind, i) }
		out[name("raw")] = run.nodes(run.Raw, highest)
		out[name("smooth")] = run.nodes(run.Smooth, smooth)
		out[name("times")] = run.times()
		out[name("path")] = run.path()
		if memory := run.memory(); len(memory.Options.X) > 0 {
			out[name("memory")] = memory
		}
		out[name("events")] = run.timeline()
	}
	return out
}

func (r *Report) smoothed() chart {
	out := chart{Kind: "experiments", Options: chartOptions{
		Title:  fmt.Sprintf("Reward, mean over nodes and seeds, moving average over %s", units.Plural(r.Window, "round")),
		YLabel: "reward", Height: 340, Colors: map[string]int{}, By: r.Per, Single: r.Single,
	}}
	for _, axis := range stats.Axes() {
		a := axisToDraw{Name: axis.Name, Unit: axis.Unit}
		currency := ""
		for _, c := range r.Curves[axis.Name] {
			if _, ok := out.Options.Colors[c.Experiment]; !ok {
				out.Options.Colors[c.Experiment] = len(out.Options.Colors)
			}
			currency = cmp.Or(currency, c.Currency)
			a.Experiments = append(a.Experiments, newExperimentToDraw(c))
		}
		if a.Label = axis.In(currency); len(a.Experiments) > 0 {
			out.Axes = append(out.Axes, a)
		}
	}
	return out
}

func newExperimentToDraw(c stats.ExperimentCurve) experimentToDraw {
	out := experimentToDraw{Experiment: c.Experiment, Metric: c.Metric, Seeds: c.Seeds, X: plotted(c.X), Mean: plotted(c.Mean)}
	if c.Seeds > 1 {
		out.Low, out.High = plotted(c.Low), plotted(c.High)
	}
	if len(c.Single) > 1 {
		for _, l := range c.Single {
			out.Single = append(out.Single, runLine{l.Run, l.Seed, plotted(l.X), plotted(l.Mean)})
		}
	}
	return out
}

// highestOf returns the highest value of a curve's nodes, but at least highest.
func highestOf(highest float64, c stats.Curve) float64 {
	for _, v := range c.High {
		if v > highest { // false for NaN
			highest = v
		}
	}
	return highest
}

// nodes draws each node's line of a curve. All charts of one kind have the same scale.
func (run *Run) nodes(c stats.Curve, highest float64) chart {
	o := chartOptions{
		Title: fmt.Sprintf("%s (%s): reward of each node", run.Label, c.Config), X: rounds(c), XLabel: "round", Height: 220, Sync: "raw",
	}
	if highest > 0 {
		o.YMax = &highest
	}
	for i, n := range c.Nodes {
		o.Series = append(o.Series, series{Label: n.Node, Values: plotted(n.Values), Color: i, Dash: i / 8, Width: 1})
	}
	return chart{Kind: "lines", Options: o}
}

func rounds(c stats.Curve) plotted {
	out := make(plotted, len(c.Round))
	for i, round := range c.Round {
		out[i] = float64(round)
	}
	return out
}

// times stacks the parts of a round and overlays the whole round.
func (run *Run) times() chart {
	o := chartOptions{
		Title: run.Label + ": time of a round, mean over nodes", X: rounds(run.Parts[0]), XLabel: "round", Unit: "seconds", Height: 220, Stacked: true,
	}
	for i, part := range run.Parts[1:] {
		o.Series = append(o.Series, series{Label: label(part.Metric), Values: plotted(part.Mean), Color: i, Width: 1})
	}
	o.Series = append(o.Series, series{Label: "whole round", Values: plotted(run.Parts[0].Mean), Color: "--text", Dash: 1, Width: 1.5, Overlay: true})
	return chart{Kind: "lines", Options: o}
}

// path draws the numbers of own and external groups that a node trained on.
func (run *Run) path() chart {
	o := chartOptions{
		Title: run.Label + ": groups trained on, mean over nodes, band from lowest to highest node", X: rounds(run.Own), XLabel: "round",
		Height: 200, YMin: new(float64),
	}
	o.Series = []series{
		{Label: "own (I)", Values: plotted(run.Own.Mean), Low: plotted(run.Own.Low), High: plotted(run.Own.High), Color: 0},
		{Label: "others' (J)", Values: plotted(run.Others.Mean), Low: plotted(run.Others.Low), High: plotted(run.Others.High), Color: 1, Dash: 1},
	}
	if s := run.Split; s != nil {
		o.Series = append(o.Series,
			series{Label: "I chosen", Values: plotted(s.Own.Mean), Color: 2, Dash: 2, Width: 1},
			series{Label: "J chosen", Values: plotted(s.External.Mean), Color: 3, Dash: 3, Width: 1})
	}
	return chart{Kind: "lines", Options: o}
}

// evaluations draws pass@1, and pass@k for the largest k, over rounds: one line per experiment, for the compared set of
// questions.
func (r *Report) evaluations() chart {
	out := chart{Kind: "experiments", Options: chartOptions{
		Title: "Held-out questions: probability that at least one of k completions is correct, mean over seeds", XLabel: "round", Unit: "ratio", Height: 300,
		Colors: map[string]int{}, Choice: "Show", Single: r.Single,
	}}
	byRun, largest := map[string]evaluation.Document{}, 1
	for _, run := range r.Runs {
		byRun[run.Totals.Run.Run] = run.Evaluations
		for _, row := range run.Evaluations.Rows {
			for _, p := range row.Pass {
				largest = max(largest, p.K)
			}
		}
	}
	for _, k := range slices.Compact([]int{1, largest}) {
		a := axisToDraw{Name: fmt.Sprintf("pass@%d", k), Label: fmt.Sprintf("pass@%d", k), Unit: "number"}
		for i, g := range r.groups {
			var runs []evaluation.Document
			for _, t := range g.Runs {
				runs = append(runs, byRun[t.Run.Run])
			}
			c := evaluation.NewCurve(r.Comparison.ShortName(g.Name), r.Comparison.EvalSet, k, runs)
			if len(c.X) > 0 {
				out.Options.Colors[c.Experiment] = i
				a.Experiments = append(a.Experiments, newExperimentToDraw(c))
			}
		}
		if len(a.Experiments) > 0 {
			out.Axes = append(out.Axes, a)
		}
	}
	return out
}

// timeline draws a run's events by node.
func (run *Run) timeline() chart {
	o := chartOptions{
		Title: run.Label + ": events", From: run.Totals.Started, To: run.Status.LastSeen, Empty: "Nothing happened",
	}
	lanes := map[string]*lane{}
	order := []string{""}
	for _, n := range run.Status.Nodes {
		order = append(order, n.ID)
	}
	for _, e := range run.Events[max(0, len(run.Events)-maxEvents):] {
		if lanes[e.Event.Node] == nil {
			lanes[e.Event.Node] = &lane{Label: cmp.Or(e.Event.Node, "run")}
			if !slices.Contains(order, e.Event.Node) {
				order = append(order, e.Event.Node)
			}
		}
		o.To = max(o.To, e.Event.Time)
		l := lanes[e.Event.Node]
		l.Items = append(l.Items, item{e.Event.Time, eventKind(e.Event), shortened(eventText(e.Event), 160)})
	}
	for _, node := range order {
		if l := lanes[node]; l != nil {
			o.Lanes = append(o.Lanes, *l)
		}
	}
	return chart{Kind: "timeline", Options: o}
}

// eventKind returns the style of an event: bad, warn, good, info.
func eventKind(e event.Event) string {
	switch e.Type {
	case event.TypeMemoryStep, event.TypeFailure, event.TypeGiveUp:
		return "bad"
	case event.TypeRestart, event.TypeWarning, event.TypeAlarm:
		return "warn"
	case event.TypeExit:
		if e.ExitCode != nil && *e.ExitCode == 0 {
			return "info"
		}
		return "bad"
	case event.TypeRunEnded:
		if e.State == event.StateDone {
			return "good"
		}
		return "warn"
	}
	return "info"
}
