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
		Short: "Print a metric over rounds: mean over nodes, lowest and highest node, smoothed as the paper does",
		Long: "curve prints a metric of runs over their rounds (the newest run by default), as report, dashboard and notebooks draw it: the mean over\n" +
			"nodes and the band from the lowest to the highest node, each node smoothed by a trailing moving average first. -o json has each\n" +
			"node's series too. On a terminal curve draws a plot and prints about 20 rounds beneath it. --all prints every round instead, and so does\n" +
			"a pipe.",
		Example: "  swarm curve --metric reward --window 100\n  swarm curve 8loc0ext 4loc4ext --points 200 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCurve(cmd.Context(), g, args, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.metric, "metric", "reward", "`metric` of a round: reward, training_reward, step_time, loss, entropy …")
	f.IntVar(&o.Window, "window", stats.PaperWindow, "`rounds` of the trailing moving average, 1: none")
	f.IntVar(&o.Points, "points", 0, "thin a series out to about so many points, extremes kept; 0: all")
	f.BoolVar(&o.all, "all", false, "on a terminal: print every round, not every n-th one beneath a plot")
	addDatabaseFlag(f, g)
	addOutputFlag(f, &o.output)
	return cmd
}

// curveDocument is `curve -o json`.
type curveDocument struct {
	Curves []stats.Curve `json:"curves"`
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
	var doc curveDocument
	for _, name := range names {
		snapshot, err := reader.Snapshot(ctx, name)
		if err != nil {
			return lifecycle.NotFound(err, name)
		}
		curve, err := query.Curve(ctx, reader, snapshot.Run, o.metric, o.CurveOptions)
		if err != nil {
			return err
		}
		doc.Curves = append(doc.Curves, curve)
	}
	if o.output == "json" {
		return writeJSON(g.stdout, doc)
	}
	return screen.Print(g.stdout, func(p *table.Page) {
		for i, c := range doc.Curves {
			if i > 0 {
				p.Println()
			}
			terminal.PrintCurve(p, c, o.all)
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
	if o.Window < 1 || o.Window > 1_000_000 {
		return &configs.Error{Key: "window", Value: fmt.Sprint(o.Window), Allowed: "a whole number from 1 to 1000000"}
	}
	if o.Points != 0 && o.Points < 4 || o.Points > 1_000_000 {
		return &configs.Error{Key: "points", Value: fmt.Sprint(o.Points), Allowed: "0 for all, or a whole number from 4 to 1000000"}
	}
	return nil
}
