package main

import (
	"context"

	"github.com/spf13/cobra"
)

type upOptions struct {
	plan   planFlags
	yes    bool
	output string
}

func newUpCommand(g *globals) *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Train a swarm on this host until its rounds are done",
		Long: "up finds the GPU (or trains on the CPU), decides how many nodes fit, starts them one model load at a time, keeps them alive\n" +
			"and records every round. Ctrl-C stops in order, after a checkpoint; a second Ctrl-C stops now. On a terminal it shows a live\n" +
			"view, elsewhere a line a round; -o json prints one event a line, the last of type summary.",
		Example: `  swarm up --nodes auto --config 4loc4ext
  swarm up --config 8loc0ext --rounds 40 --device cpu --model nano
  swarm up --config mine.yaml --seed 7 --name mine-7`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runUp(cmd.Context(), g, &o)
		},
	}
	o.plan.add(cmd.Flags())
	cmd.Flags().Var(&o.plan.gpuLimit, "gpu-memory", "use each GPU as if it were a card of this `size`, such as 15GB")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "download the model's weights without a question where they are missing")
	addLinesFlag(cmd.Flags(), &o.output, "one event")
	return cmd
}

func runUp(ctx context.Context, g *globals, o *upOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	ctx, interrupts := watchSignals(ctx, g.stderr, "Stopping after a checkpoint. Again to stop now.")
	defer interrupts.close()
	p, err := o.plan.resolve(ctx, g)
	if err != nil {
		return stoppedBy(ctx, err)
	}
	c, err := prepare(ctx, g, p, o.yes)
	if err != nil {
		return stoppedBy(ctx, err)
	}
	defer c.close()
	return c.train(ctx, interrupts, o.output == "json")
}
