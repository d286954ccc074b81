package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/runs"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

type statusOptions struct {
	watch    bool
	interval time.Duration
	output   string
}

func newStatusCommand(g *globals) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status [EXPERIMENT, RUN or JOB]",
		Short: "Show a run or a job: rounds, rewards, memory, time left",
		Long: "status shows a run, by its name or its experiment's. Without a name it shows the newest run, says\n" +
			"how many others are running, and lists the jobs of `swarm run` of the last days. `swarm ls` lists\n" +
			"all runs. With a job's name it shows each attempt: its settings, its memory, and how it ended.",
		Args: usage.AtMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runStatus(cmd.Context(), g, nameIn(args), &o)
		},
	}
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "update until it ends, as swarm attach does; q leaves and the run continues")
	addInterval(cmd, &o.interval)
	addOutputFlag(cmd.Flags(), &o.output)
	return cmd
}

// addInterval adds the flag of commands that poll.
func addInterval(cmd *cobra.Command, interval *time.Duration) {
	cmd.Flags().DurationVar(interval, "interval", time.Second, "`time` between updates, 100ms to 1h")
}

func checkInterval(interval time.Duration) error {
	if interval < 100*time.Millisecond || interval > time.Hour {
		return &configs.Error{Key: "interval", Value: interval.String(), Allowed: "a time from 100ms to 1h"}
	}
	return nil
}

func runStatus(ctx context.Context, g *globals, name string, o *statusOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if err := checkInterval(o.interval); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	found, ok, err := job.Named(ctx, reader, name)
	if err != nil {
		return err
	}
	if ok {
		return showJob(g, found, o)
	}
	if o.watch {
		return watch(ctx, g, reader, name, o.interval, o.output)
	}
	if name == "" {
		all, err := runs.Look(ctx, reader, g.home, g.advice())
		if err != nil {
			return err
		}
		if o.output == "json" {
			return writeJSON(g.stdout, all)
		}
		return screen.Print(g.stdout, all.Print)
	}
	status, err := lifecycle.Status(ctx, reader, name)
	if err != nil {
		return lifecycle.NotFound(err, name)
	}
	status.EngineHost = lifecycle.EngineHost(g.home, status)
	if o.output == "json" {
		return writeJSON(g.stdout, status)
	}
	after, err := runs.After(ctx, g.home, reader, status, g.advice())
	if err != nil {
		return err
	}
	return screen.Print(g.stdout, func(p *table.Page) {
		terminal.PrintStatus(p, status)
		after.Print(p)
	})
}

// showJob prints a job and each of its attempts.
func showJob(g *globals, j store.Job, o *statusOptions) error {
	if o.watch {
		return fail.Usage(fmt.Errorf("--watch shows runs of swarm up, and %s is a job", j.Job), "swarm logs "+j.Job+" -f")
	}
	job := job.Describe(j)
	if o.output == "json" {
		return writeJSON(g.stdout, job)
	}
	return screen.Print(g.stdout, func(p *table.Page) { terminal.PrintJob(p, job) })
}
