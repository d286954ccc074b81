package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/launcher/runs"
	"github.com/sapo-swarm/swarm/metrics/store"
)

type pruneOptions struct {
	removalFlags
	which runs.Prune
	keep  int
}

func newPruneCommand(g *globals) *cobra.Command {
	var o pruneOptions
	cmd := &cobra.Command{
		Use:   "prune [EXPERIMENT...] --keep N | --older-than AGE",
		Short: "Remove old runs, by number or age",
		Long: "prune removes runs that are done, of all experiments or of those named. --keep keeps the newest N of\n" +
			"each experiment. --older-than removes those that ended before. With both, both must apply to a run.\n" +
			"It shows what it would remove and asks. Runs that could continue (stopped, crashed, lost, failed)\n" +
			"stay unless --state names them. Imported runs always stay, because they have no files. --files frees\n" +
			"the disk and keeps the records: compare, curve and report still show the runs.",
		Example: `  swarm prune --keep 3 --dry-run
  swarm prune --keep 1 --files
  swarm prune --older-than 30d --state done,failed,crashed
  swarm prune 4loc4ext --keep 3 --older-than 2w --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("keep") {
				o.which.Keep = &o.keep
			}
			return runPrune(cmd.Context(), g, args, &o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.keep, "keep", 0, "leave the newest `N` runs of each experiment, 0 or more")
	f.StringVar(&o.which.OlderThan, "older-than", "", "only runs that ended longer than this `age` ago, such as 12h, 30d or 4w")
	f.StringSliceVar(&o.which.States, "state", []string{store.RunDone}, "only runs in these `states`: "+strings.Join(runs.Removable(), ", "))
	o.add(f)
	return cmd
}

func runPrune(ctx context.Context, g *globals, experiments []string, o *pruneOptions) error {
	if err := errors.Join(checkOutput(o.output), runs.CheckRemovable(o.which.States)); err != nil {
		return err
	}
	if err := o.which.Check(); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	removed, err := o.of(g).Prune(ctx, reader, experiments, &o.which)
	return o.show(g, removed, err)
}
