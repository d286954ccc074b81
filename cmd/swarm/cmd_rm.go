package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func newRmCommand(g *globals) *cobra.Command {
	var o removal
	cmd := &cobra.Command{
		Use:   "rm RUN or EXPERIMENT...",
		Short: "Remove runs: their records and their files",
		Long: "rm removes runs from the database and from disk, or all runs of an experiment. It shows what it would remove and asks. It never removes\n" +
			"a run of an experiment that is running. With --files it frees the disk and keeps the records: rounds, rewards and evaluations are\n" +
			"small, checkpoints are large. There is no undo: swarm export --format sqlite keeps a copy of the records, swarm model save the weights.",
		Example: `  swarm rm 4loc4ext-1 4loc4ext-2
  swarm rm 4loc4ext --dry-run
  swarm rm 4loc4ext-1 --files --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fail.Usage(errors.New("rm needs the names of runs or experiments"), "swarm ls")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runRm(cmd.Context(), g, args, &o) },
	}
	o.add(cmd.Flags())
	return cmd
}

func runRm(ctx context.Context, g *globals, names []string, o *removal) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	runs, err := namedForRemoval(ctx, g, reader, names)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if err := lifecycle.InUse(g.home, r); err != nil {
			return err
		}
	}
	command := "rm"
	for _, name := range names {
		command += " " + shell.Quote(name)
	}
	if o.files {
		command += " --files"
	}
	return o.remove(ctx, g, reader, command, runs, nil)
}

// namedForRemoval are the runs of those names. A name that a run has means that run alone, though an experiment has it, too.
func namedForRemoval(ctx context.Context, g *globals, reader *store.Reader, names []string) ([]lifecycle.Listed, error) {
	for _, name := range names {
		found, ok, err := job.Named(ctx, reader, name)
		if err != nil {
			return nil, err
		}
		if ok {
			return nil, fail.Usage(errors.New(strings.TrimSpace(charset.Shown(found.Job))+" is a job of swarm run: rm removes runs of swarm up"), "swarm ls")
		}
	}
	all, err := lifecycle.List(ctx, reader, names, nil)
	if err != nil {
		return nil, err
	}
	isRun, wanted := map[string]bool{}, map[string]bool{}
	for _, r := range all {
		isRun[r.Run] = true
	}
	for _, name := range names {
		wanted[name] = true
	}
	var runs []lifecycle.Listed
	for _, r := range all {
		if wanted[r.Run] || wanted[r.Experiment] && !isRun[r.Experiment] {
			runs = append(runs, r)
		}
	}
	return runs, nil
}
