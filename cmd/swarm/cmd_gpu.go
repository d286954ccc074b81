package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/lifecycle/gpuwatch"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

type gpuOptions struct {
	output   string
	once     bool
	interval time.Duration
}

func newGPUCommand(g *globals) *cobra.Command {
	var o gpuOptions
	cmd := &cobra.Command{
		Use:   "gpu",
		Short: "Watch the GPUs: memory and its owners, load, heat, errors, advice",
		Long: "gpu shows every visible GPU, the nodes of running runs on it, memory held by unknown processes,\n" +
			"warnings and recommendations. On a terminal it is a live view that q leaves. With --once, with -o\n" +
			"json, or without a terminal it prints once. Without a GPU it shows the host's memory and why there\n" +
			"is no GPU. XID errors are reported from the start of the view. `swarm up` records those of a run.",
		Example: `  swarm gpu
  swarm gpu --once
  swarm gpu -o json | jq '.warnings[].text'`,
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGPU(cmd.Context(), g, &o)
		},
	}
	addOutputFlag(cmd.Flags(), &o.output)
	cmd.Flags().BoolVar(&o.once, "once", false, "print once and exit")
	cmd.Flags().DurationVar(&o.interval, "interval", time.Second, "`time` between updates of the live view, 100ms to 1h")
	return cmd
}

func runGPU(ctx context.Context, g *globals, o *gpuOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if o.interval < 100*time.Millisecond || o.interval > time.Hour {
		return &configs.Error{Key: "interval", Value: o.interval.String(), Allowed: "a time from 100ms to 1h"}
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Leaving. Runs continue.")
	defer interrupts.Close()
	watch, err := gpuwatch.Open(ctx, g.home, remedy)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	defer watch.Close()
	if !o.once && o.output == "text" && g.interactive() {
		err := terminal.LiveGPUs(ctx, terminal.GPUConfig{
			Poll: watch.View, Interval: o.interval, Out: g.stdout, In: g.stdin, Environ: os.Environ(),
		})
		return interrupt.Exit(ctx, err)
	}
	document, err := watch.Look(ctx)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if o.output == "json" {
		return writeJSON(g.stdout, document)
	}
	return screen.Print(g.stdout, func(p *table.Page) { terminal.PrintGPUs(p, watch.Status(document)) })
}
