package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/launcher/plan"
)

type planOptions struct {
	plan        plan.Options
	study       string
	seeds       string
	differences []float64
	price       plan.PriceFlag
	output      string
	flags       *pflag.FlagSet
}

func newPlanCommand(g *globals) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan [CONFIG]",
		Short: "Show how many nodes fit, where, and why",
		Long: "plan looks at the GPUs, or at the host if nodes train on the CPU. It prints how many nodes fit and\n" +
			"how they share the memory, what one node needs item by item, which rule decided, and what would\n" +
			"change the answer. It starts nothing.\n\n" +
			"With --study it prints what a whole study needs: nodes, runs, time and, with --price, money, and the\n" +
			"source of each figure: recorded rounds of such a swarm, else a `swarm profile`, else first\n" +
			"principles. It also prints how many seeds decide a difference of --difference.",
		Example: `  swarm plan 4loc4ext
  swarm plan --model gpt2 --gpu-memory 40GB -o json
  swarm plan --nodes max --share lease --swarm-size 24
  swarm plan --study paper --model gpt2 --gpu-memory 80GB --price 1.29/h`,
		Args: func(cmd *cobra.Command, args []string) error { return o.plan.Config.TakeArgs(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			o.flags = cmd.Flags()
			return runPlan(cmd.Context(), g, &o)
		},
	}
	addPlanFlags(cmd.Flags(), &o.plan)
	o.price.Add(cmd.Flags())
	cmd.Flags().Var(&o.plan.GPUMemory, "gpu-memory", "plan for a GPU of this `size`, whether you have one or not, such as 40, 40GB or 40GiB; without a unit: GB")
	cmd.Flags().Var(&o.plan.HostMemory, "host-memory", "plan for a host on which this `size` of memory is available, such as 12.7 or 12.7GB")
	cmd.Flags().StringVar(&o.study, "study", "", "what a whole `study` takes: "+strings.Join(configs.Studies(), ", "))
	cmd.Flags().StringVar(&o.seeds, "seeds", "", "with --study: how many `seeds` (default: the study's), or a list")
	cmd.Flags().Float64SliceVar(&o.differences, "difference", nil, "with --study: the `difference` in held-out pass@1 (or reward) that seeds are to decide, such as 0.015")
	addOutputFlag(cmd.Flags(), &o.output)
	return cmd
}

func runPlan(ctx context.Context, g *globals, o *planOptions) error {
	p := &o.plan
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if p.Wait.Limit > 0 {
		stoppable, interrupts := interrupt.Notify(ctx, g.stderr, "Stopped waiting.")
		defer interrupts.Close()
		ctx = stoppable
	}
	if o.study != "" {
		return runStudyPlan(ctx, g, o)
	}
	for _, flag := range []struct{ name, example string }{{"seeds", "5"}, {"difference", "0.02"}, {"price", "1.29/h"}} {
		if o.flags.Changed(flag.name) {
			return fail.Usage(fmt.Errorf("--%s needs --study", flag.name), "swarm plan --study paper --"+flag.name+" "+flag.example)
		}
	}
	planned, err := p.Resolve(ctx, g.planHost())
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	planned.Turn.Release()
	for _, w := range planned.Warnings {
		fmt.Fprintln(g.stderr, "Warning:", w)
	}
	if o.output == "json" {
		return writeJSON(g.stdout, planned.Plan)
	}
	return screen.Print(g.stdout, planned.Print)
}
