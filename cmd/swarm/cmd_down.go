package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/runs"
)

func newDownCommand(g *globals) *cobra.Command {
	var o runs.DownOptions
	var output string
	cmd := &cobra.Command{
		Use:   "down [EXPERIMENT, RUN or JOB]",
		Short: "Stop a run or a job after a checkpoint",
		Long: "down stops the coordinator of a run. Its nodes finish their step and write a checkpoint, and `swarm\n" +
			"resume` continues the run later. A coordinator that does not end in time is killed, and so are its\n" +
			"leftover processes. Without a name it stops the only running run. If nothing is running, it does\n" +
			"nothing and exits with 0. To stop a job of `swarm run`, name it: its command gets SIGTERM.",
		Example: `  swarm down
  swarm down 4loc4ext --now
  swarm down --all`,
		Args: usage.AtMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDown(cmd.Context(), g, nameIn(args), o, output)
		},
	}
	cmd.Flags().BoolVar(&o.Now, "now", false, "do not wait for steps and checkpoints; the journals restore the rounds since the last checkpoint")
	cmd.Flags().BoolVar(&o.All, "all", false, "stop every run of this host")
	cmd.Flags().DurationVar(&o.Limit, "timeout", runs.DownLimit, "`time` to wait for the stop before the run is killed, 1s to 1h")
	addOutputFlag(cmd.Flags(), &output)
	return cmd
}

func runDown(ctx context.Context, g *globals, name string, o runs.DownOptions, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	o.Home, o.Stderr, o.GoesOn, o.Name = g.home, g.stderr, g.advice().GoesOn, name
	if err := o.Check(); err != nil {
		return err
	}
	stopped, err := runs.Down(ctx, o)
	if stopped == nil {
		return err
	}
	if output == "json" {
		return errors.Join(writeJSON(g.stdout, stopped), err)
	}
	return errors.Join(stopped.Write(g.stdout, g.home), err)
}
