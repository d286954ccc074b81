package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/recorded"
	"github.com/sapo-swarm/swarm/node/verify"
)

type verifyOptions struct {
	generate bool
	output   string
}

func newVerifyCommand(g *globals) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify EXPERIMENT or RUN",
		Short: "Repeat a run from its journals and compare every weight",
		Long: "verify repeats every round of a finished run from the nodes' journals: it draws the questions again,\n" +
			"scores the completions, draws the externals, and makes every update from the first weights. The\n" +
			"results must equal the journals and the database: rewards, training sets, losses, and the weights at\n" +
			"every checkpoint. On a CPU they are equal bit for bit. A GPU does not compute the same bits each\n" +
			"time, so there weights and losses are compared for information only. The checkpoint files that are\n" +
			"still on disk must have the SHA-256 of their manifests.",
		Example: "  swarm verify 4loc4ext\n  swarm verify 4loc4ext-2 --generate -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fail.Usage(fmt.Errorf("verify takes one experiment or run, not %d", len(args)), "swarm ls")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runVerify(cmd.Context(), g, args[0], o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.generate, "generate", false, "also generate the completions again and compare them token by token; takes as long as the run")
	addOutputFlag(f, &o.output)
	return cmd
}

func runVerify(ctx context.Context, g *globals, name string, o verifyOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return lifecycle.NotFound(err, name)
	}
	if err := coordinator.ForeignNodes(snapshot.Run); err != nil {
		return err
	}
	if err := recorded.Ended(snapshot); err != nil {
		return err
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	report, err := recorded.Verify(ctx, g.planHost(), reader, snapshot, o.generate)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	run := snapshot.Run
	result := verify.Document{Run: run.Run, Experiment: run.Experiment, State: run.State, Device: run.Device, Report: report}
	if o.output == "json" {
		err = writeJSON(g.stdout, result)
	} else {
		err = screen.Print(g.stdout, result.Print)
	}
	if err == nil && !report.Verified {
		err = fmt.Errorf("run %s differs from its journals or database", run.Run)
	}
	return err
}
