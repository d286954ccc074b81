package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

type curveOptions struct {
	metric string
	all    bool
	stats.CurveOptions
	output string
}

func newCurveCommand(g *globals) *cobra.Command {
	var o curveOptions
	cmd := &cobra.Command{
		Use:   "curve [EXPERIMENT or RUN...]",
		Short: "Plot a metric over rounds, tokens, time or money",
		Long: "curve prints a metric, of the newest run by default, as report, dashboard and notebooks draw it. A\n" +
			"trailing moving average smooths each node first. For an experiment with several seeds it prints the\n" +
			"mean over seeds with its 95 % interval, for one run the mean over nodes with the lowest and the\n" +
			"highest node. --runs also prints the single runs. -o json has each node's series.\n\n" +
			"--per chooses the axis: rounds, completions or tokens that all nodes have generated, engine-seconds\n" +
			"(all nodes' time in their engines), seconds at work, or money.\n\n" +
			"On a terminal curve draws a plot and prints about 20 rounds below it. --all, or a pipe, prints every\n" +
			"round.",
		Example: "  swarm curve --metric reward --window 100\n  swarm curve 8loc0ext 4loc4ext --per tokens\n  swarm curve 8loc0ext 4loc4ext --points 200 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCurve(cmd.Context(), g, args, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.metric, "metric", "reward", "`metric` of a round: reward, training_reward, step_time, loss, entropy …")
	f.StringVar(&o.Per, "per", stats.PerRounds, perHelp)
	f.BoolVar(&o.Single, "runs", false, "also print each run of an experiment")
	f.IntVar(&o.Window, "window", stats.PaperWindow, "`rounds` of the trailing moving average, 1: none")
	f.IntVar(&o.Points, "points", 0, "thin a series to about this many points, keeping extremes; 0: all")
	f.BoolVar(&o.all, "all", false, "on a terminal: print every round below the plot, not every n-th")
	addDatabaseFlag(f, g)
	addOutputFlag(f, &o.output)
	return cmd
}

// perHelp is the help of --per, which report has, too.
const perHelp = "x-axis of the curves: rounds, completions, tokens, engine-seconds, seconds or money"

// checkPer refuses an unknown axis.
func checkPer(name string) error {
	if _, err := stats.AxisOf(name); err != nil {
		return &configs.Error{Key: "per", Value: name, Allowed: strings.Join(stats.AxisNames(), ", ")}
	}
	return nil
}

// curveDocument is the output of `curve -o json`.
type curveDocument struct {
	Curves      []stats.Curve           `json:"curves"`      // the newest run of each name
	Experiments []stats.ExperimentCurve `json:"experiments"` // one per name; the name of a run gives that run alone
}

func runCurve(ctx context.Context, g *globals, names []string, o *curveOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	if len(names) == 0 {
		names = []string{""} // the newest
	}
	var all []stats.NamedCurves
	var doc curveDocument
	for _, name := range names {
		c, err := query.NamedCurves(ctx, reader, name, o.metric, o.CurveOptions)
		if err != nil {
			return lifecycle.NotFound(err, name)
		}
		all = append(all, c)
		doc.Curves, doc.Experiments = append(doc.Curves, c.Newest), append(doc.Experiments, c.Experiments...)
	}
	if o.output == "json" {
		return writeJSON(g.stdout, doc)
	}
	return screen.Print(g.stdout, func(p *table.Page) {
		for i, c := range all {
			if i > 0 {
				p.Println()
			}
			terminal.PrintCurves(p, c, o.Per, o.all)
		}
	})
}

func (o *curveOptions) check() error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if !slices.Contains(event.MetricNames(), o.metric) {
		return &configs.Error{Key: "metric", Value: o.metric, Allowed: strings.Join(event.MetricNames(), ", ")}
	}
	if err := checkPer(o.Per); err != nil {
		return err
	}
	if o.Window < 1 || o.Window > 1_000_000 {
		return &configs.Error{Key: "window", Value: fmt.Sprint(o.Window), Allowed: "a whole number from 1 to 1000000"}
	}
	if o.Points != 0 && o.Points < 4 || o.Points > 1_000_000 {
		return &configs.Error{Key: "points", Value: fmt.Sprint(o.Points), Allowed: "0 for all, or a whole number from 4 to 1000000"}
	}
	return nil
}
