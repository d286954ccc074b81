package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func newCompareCommand(g *globals) *cobra.Command {
	var baseline, output string
	cmd := &cobra.Command{
		Use:   "compare [EXPERIMENT...]",
		Short: "Compare experiments: cumulative reward, improvement over the baseline, beside the paper's",
		Long: "compare shows the recorded experiments (all, or those named) with their cumulative reward and their improvement over the\n" +
			"baseline, beside the paper's figures for the same I/J (8 nodes, 2000 rounds, Qwen2.5-0.5B).",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCompare(cmd.Context(), g, args, baseline, output)
		},
	}
	cmd.Flags().StringVar(&baseline, "baseline", "", "`experiment` to compare with (default: the first without externals)")
	addOutputFlag(cmd.Flags(), &output)
	return cmd
}

func runCompare(ctx context.Context, g *globals, names []string, baseline, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	filter := store.Filter{Experiments: names}
	if baseline != "" && len(names) > 0 {
		filter.Experiments = append(names[:len(names):len(names)], baseline)
	}
	runs, err := reader.Runs(ctx, filter)
	if err != nil {
		return err
	}
	for _, name := range names {
		found := false
		for _, r := range runs {
			found = found || r.Experiment == name
		}
		if !found {
			return notFound(store.ErrNotFound, name)
		}
	}
	comparison, err := stats.Compare(runs, baseline)
	if errors.Is(err, store.ErrNotFound) {
		return notFound(err, baseline)
	}
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(g.stdout, comparison)
	}
	return printComparison(g.stdout, comparison)
}

func printComparison(out io.Writer, c stats.Comparison) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "experiment\tI/J\truns\tnodes\trounds\tcumulative\ta node-round\timprovement\tpaper\tverdict")
	for _, r := range c.Rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%.2f\t%s\t%s\t%s\t%s\n", r.Experiment, r.Config, r.Runs, r.Nodes, r.Rounds,
			r.CumulativeReward, number(r.RewardPerNodeRound, "%.4f"), percent(r.Improvement), paper(r), r.Verdict)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	if len(c.Rows) > 0 && c.Basis == stats.BasisPerNodeRound {
		fmt.Fprintln(out, "\nThe runs differ in nodes or rounds: improvements compare the reward of a node-round.")
	}
	return nil
}

func number(v *float64, format string) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf(format, *v)
}

func percent(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%+.1f %%", 100**v)
}

func paper(r stats.Row) string {
	if r.PaperReward == nil {
		return "–"
	}
	if r.PaperImprovement == nil {
		return fmt.Sprintf("%.0f", *r.PaperReward)
	}
	return fmt.Sprintf("%.0f (%s)", *r.PaperReward, percent(r.PaperImprovement))
}
