package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/node/profile"
)

type profileOptions struct {
	plan   plan.Options
	sizes  string
	output string
}

func newProfileCommand(g *globals) *cobra.Command {
	var o profileOptions
	cmd := &cobra.Command{
		Use:   "profile [CONFIG]",
		Short: "Measure the memory of a node, for later plans",
		Long: "profile loads the model once and runs a node's phases at maximum length, with an increasing number of\n" +
			"sequences at a time. It fits a line through the memory peaks and stores it for this model, these\n" +
			"settings, this torch and this GPU. `swarm plan` and `swarm up` then use it instead of the\n" +
			"recommended counts and the estimate, and say so. Keep the GPU idle during the measurement.",
		Example: `  swarm profile --model gpt2
  swarm profile 4loc4ext --sizes 1,4,16`,
		Args: func(cmd *cobra.Command, args []string) error { return o.plan.Config.TakeArgs(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return runProfile(cmd.Context(), g, &o)
		},
	}
	o.plan.Config.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.sizes, "sizes", "", "sequences at a time to measure, a `list` such as 1,4,16 (default: powers of two)")
	addOutputFlag(cmd.Flags(), &o.output)
	return cmd
}

func runProfile(ctx context.Context, g *globals, o *profileOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	sizes, err := profile.ParseSizes(o.sizes)
	if err != nil {
		return err
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping. Nothing is stored.")
	defer interrupts.Close()
	look, err := o.plan.Look(g.planHost())
	if err != nil {
		return err
	}
	p, _, err := look(ctx)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if p.Config.Models != "" {
		return fail.Usage(fmt.Errorf("profile measures one model at a time, not %s", p.Config.Models), "--model "+p.Config.Model+", then each of the others")
	}
	if err := profile.CheckSizes(o.sizes, sizes, p.Config); err != nil {
		return err
	}
	result, err := plan.Profile(ctx, g.planHost(), p, sizes)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if err := plan.KeepProfile(ctx, g.planHost(), p, result); err != nil {
		return err
	}
	if o.output == "json" {
		return writeJSON(g.stdout, result)
	}
	return screen.Print(g.stdout, result.Print)
}
