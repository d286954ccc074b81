package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// charts are all of a report's, by the name that the page asks for.
func (r *Report) charts() map[string]chart {
	out := map[string]chart{"smoothed": r.smoothed()}
	if evaluations := r.evaluations(); len(evaluations.Options.Series) > 0 {
		out["evaluations"] = evaluations
	}
	if splits := r.splits(); len(splits.Curves) > 0 {
		out["splits"] = splits
	}
	highest := 0.0
	for _, run := range r.Drawn() {
		for _, v := range run.Raw.High {
			if v > highest { // never of NaN
				highest = v
			}
		}
	}
	for i, run := range r.Runs {
		if !run.Drawn || run.Totals.NodeRounds == 0 {
			continue
		}
		name := func(kind string) string { return fmt.Sprintf("%s-%d", kind, i) }
		out[name("raw")] = run.raw(highest)
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
	out := chart{Kind: "curves", Options: chartOptions{
		Title:  fmt.Sprintf("Reward, agent average over %s, band from the lowest to the highest node", units.Plural(r.Window, "round")),
		YLabel: "reward", Height: 340, Colors: map[string]int{},
	}}
	for _, run := range r.Runs {
		c := run.Smooth
		if c.Rounds == 0 {
			continue
		}
		out.Options.Colors[run.Name] = run.Color
		out.Curves = append(out.Curves, curveToDraw{
			c.Run, run.Name, c.Seed, c.Metric, c.Round, plotted(c.Mean), plotted(c.Low), plotted(c.High),
		})
	}
	return out
}

func (run *Run) raw(highest float64) chart {
	o := chartOptions{
		Title: fmt.Sprintf("%s (%s): reward of each node", run.Label, run.Raw.Config), X: rounds(run.Raw), XLabel: "round", Height: 220, Sync: "raw",
	}
	if highest > 0 {
		o.YMax = &highest
	}
	for i, n := range run.Raw.Nodes {
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

// times stacks the parts of a round; the whole lies over them.
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

// path is how many groups of its own and of others a node trained on.
func (run *Run) path() chart {
	o := chartOptions{
		Title: run.Label + ": groups trained on, mean over nodes, band from the lowest to the highest", X: rounds(run.Own), XLabel: "round",
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

// evaluations are pass@1, and pass@k of the largest k, over rounds.
func (r *Report) evaluations() chart {
	o := chartOptions{Title: "Held-out questions: chance that one of k completions is right", XLabel: "round", Unit: "ratio", Height: 300}
	at := map[float64]int{}
	for _, run := range r.Runs {
		for _, row := range run.Evaluations.Rows {
			at[float64(row.Round)] = 0
		}
	}
	o.X = slices.AppendSeq(o.X, maps.Keys(at))
	slices.Sort(o.X)
	for i, x := range o.X {
		at[x] = i
	}
	for _, run := range r.Runs {
		for k := range 2 {
			if s := run.passes(at, k == 1); s.Values != nil {
				o.Series = append(o.Series, s)
			}
		}
	}
	return chart{Kind: "lines", Options: o}
}

// passes is the series of pass@1, or of pass@k with the largest k; without values where there is none.
func (run *Run) passes(at map[float64]int, largest bool) series {
	out := series{Color: run.Color, Width: 2}
	for _, row := range run.Evaluations.Rows {
		if len(row.Pass) == 0 || largest && len(row.Pass) < 2 {
			continue
		}
		pass := row.Pass[0]
		if largest {
			pass = slices.MaxFunc(row.Pass, func(a, b stats.Pass) int { return cmp.Compare(a.K, b.K) })
			out.Dash, out.Width = 1, 1.2
		}
		if out.Values == nil {
			out.Values = unknowns(len(at))
		}
		out.Label = fmt.Sprintf("%s pass@%d", run.Label, pass.K)
		out.Values[at[float64(row.Round)]] = pass.Value
	}
	return out
}

// timeline shows a run's events by node.
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

// eventKind is how an event looks: bad, warn, good, info.
func eventKind(e event.Event) string {
	switch e.Type {
	case event.TypeMemoryStep, event.TypeFailure, event.TypeGiveUp:
		return "bad"
	case event.TypeRestart, event.TypeWarning:
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
