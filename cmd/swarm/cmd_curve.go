package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

type curveOptions struct {
	metric string
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
			"node's series too.",
		Example: "  swarm curve --metric reward --window 100\n  swarm curve 8loc0ext 4loc4ext --points 200 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCurve(cmd.Context(), g, args, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.metric, "metric", "reward", "`metric` of a round: reward, training_reward, step_time, loss, entropy …")
	f.IntVar(&o.Window, "window", stats.PaperWindow, "`rounds` of the trailing moving average, 1: none")
	f.IntVar(&o.Points, "points", 0, "thin a series out to about so many points, extremes kept; 0: all")
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
			return notFound(err, name)
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
	for i, c := range doc.Curves {
		if i > 0 {
			fmt.Fprintln(g.stdout)
		}
		if err := printCurve(g.stdout, c); err != nil {
			return err
		}
	}
	return nil
}

func (o *curveOptions) check() error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if !slices.Contains(store.RoundMetrics(), o.metric) {
		return &configs.Error{Key: "metric", Value: o.metric, Allowed: strings.Join(store.RoundMetrics(), ", ")}
	}
	if o.Window < 1 || o.Window > 1_000_000 {
		return &configs.Error{Key: "window", Value: fmt.Sprint(o.Window), Allowed: "a whole number from 1 to 1000000"}
	}
	if o.Points != 0 && o.Points < 4 || o.Points > 1_000_000 {
		return &configs.Error{Key: "points", Value: fmt.Sprint(o.Points), Allowed: "0 for all, or a whole number from 4 to 1000000"}
	}
	return nil
}

func printCurve(out io.Writer, c stats.Curve) error {
	smoothed := fmt.Sprintf("moving average over %d rounds", c.Window)
	if c.Window == 1 {
		smoothed = "not smoothed"
	}
	fmt.Fprintf(out, "%s: %s, %s, of %d nodes\n", c.Run, c.Metric, smoothed, len(c.Nodes))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "round\tmean\tlowest\thighest\t")
	for i, round := range c.Round {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t\n", round, decimal(c.Mean[i]), decimal(c.Low[i]), decimal(c.High[i]))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the curve: %w", err)
	}
	return nil
}

func decimal(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return fmt.Sprintf("%.4g", v)
}
