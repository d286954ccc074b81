package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// resumeFlags are the flags of up in resume's help.
var resumeFlags = []string{"rounds", "detach", "output", "dashboard", "price", "yes", "on-complete", "webhook", "wait-for-gpu", "nats", "help"}

func newResumeCommand(g *globals) *cobra.Command {
	up := newUpCommand(g)
	cmd := &cobra.Command{
		Use:   "resume [EXPERIMENT or RUN]",
		Short: "Continue an interrupted run with the command that began it",
		Long: "resume continues a run that was stopped, has failed or crashed, by default the newest. It reads the\n" +
			"command that began the run, its variables and its folder from the database, so it works from any\n" +
			"folder. Other flags of `swarm up` may be added and override these. Secrets of the command are in the\n" +
			"run's folder, which must still exist.\n\n" +
			"A run that is done prints its summary, and --rounds N extends it. A run of a sweep continues with\n" +
			"that sweep: resume prints its command.",
		Example: `  swarm resume
  swarm resume 4loc4ext-1 --detach
  swarm resume 4loc4ext --rounds 100`,
		Args: usage.AtMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			extra, err := extraWords(cmd.Flags())
			if err != nil {
				return err
			}
			return runResume(cmd.Context(), g, nameIn(args), extra)
		},
	}
	cmd.Flags().AddFlagSet(up.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Hidden || !slices.Contains(resumeFlags, f.Name) })
	return cmd
}

// extraWords returns the given flags as arguments of up. Paths of files and folders are made absolute.
func extraWords(f *pflag.FlagSet) ([]string, error) {
	if f.Changed("fresh") {
		return nil, fail.Usage(errors.New("resume continues a run, and --fresh begins a new one"), "swarm up --fresh with the run's other flags")
	}
	return commandline.Given(f, func(name string) bool { return name == "home" }, func(flag *pflag.Flag, v string) string {
		kind, _ := pflag.UnquoteUsage(flag)
		if path, err := filepath.Abs(v); err == nil && v != "" && (kind == "file" || kind == "folder") {
			return path
		}
		return v
	}), nil
}

func runResume(ctx context.Context, g *globals, name string, extra []string) error {
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	if name != "" {
		found, ok, err := job.Named(ctx, reader, name)
		if err != nil {
			return err
		}
		if ok {
			return fail.Usage(fmt.Errorf("%s is a job of swarm run, and resume continues only runs of swarm up", found.Job), "swarm run with the command that this shows: swarm status "+found.Job)
		}
	}
	s, err := commandline.ToResume(ctx, reader, name)
	if err != nil {
		return err
	}
	if run := s.Run; run.State == store.RunDone && len(extra) == 0 {
		if g.home.LacksRun(run.Run) {
			fmt.Fprintf(g.stdout, "%s has done all its %s. It cannot be extended, because its files were removed.\n", run.Run, units.Plural(run.Rounds, "round"))
			return g.viewer().Summarise(reader, run)
		}
		fmt.Fprintf(g.stdout, "%s has done all its %s. To extend it: %s resume %s --rounds %d\n", run.Run, units.Plural(run.Rounds, "round"),
			g.invocation(), run.Run, 2*run.Rounds)
		return g.viewer().Summarise(reader, run)
	}
	again, err := commandline.Resume(g.home, s, extra, grammar(), configSources)
	if err != nil {
		return err
	}
	if err := reader.Close(); err != nil {
		return err
	}
	return again.Become(g.logger)
}
