package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/launcher/runs"
)

func newRmCommand(g *globals) *cobra.Command {
	var o removalFlags
	cmd := &cobra.Command{
		Use:   "rm RUN or EXPERIMENT...",
		Short: "Remove runs: their records and their files",
		Long: "rm removes runs from the database and from disk, or all runs of an experiment. It shows what it\n" +
			"would remove and asks. It never removes a run of an experiment that is running. --files frees the\n" +
			"disk and keeps the records: rounds, rewards and evaluations are small, checkpoints are large. There\n" +
			"is no undo: `swarm export --format sqlite` keeps a copy of the records, `swarm model save` the\n" +
			"weights.",
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

func runRm(ctx context.Context, g *globals, names []string, o *removalFlags) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	removed, err := o.of(g).Remove(ctx, reader, names)
	return o.show(g, removed, err)
}

// removalFlags are the flags that rm and prune share.
type removalFlags struct {
	runs.Removal
	output string
}

func (o *removalFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&o.Files, "files", false, "remove only the folders (checkpoints, journals, logs); compare, curve and report still show the runs")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would be removed, and remove nothing")
	f.BoolVarP(&o.Yes, "yes", "y", false, "do not ask")
	addOutputFlag(f, &o.output)
}

// of returns the removal with this process's streams and settings.
func (o *removalFlags) of(g *globals) *runs.Removal {
	o.Home, o.Logger, o.Stdin, o.Stderr = g.home, g.logger, g.stdin, g.stderr
	return &o.Removal
}

// show prints what was removed, if anything, and returns the removal's error.
func (o *removalFlags) show(g *globals, removed *runs.Removed, err error) error {
	switch {
	case removed == nil:
		return err
	case o.output == "json":
		return errors.Join(writeJSON(g.stdout, removed), err)
	}
	return errors.Join(screen.Print(g.stdout, removed.Print), err)
}
