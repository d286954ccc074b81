package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/launcher/fit"
)

func newPlanCommand(g *globals) *cobra.Command {
	var p planFlags
	var output string
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say how many nodes fit, where, and why",
		Example: `  swarm plan --config 4loc4ext
  swarm plan --model gpt2 --gpu-memory 40GB -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPlan(cmd.Context(), g, &p, output)
		},
	}
	p.add(cmd.Flags())
	cmd.Flags().StringVar(&p.gpuMemory, "gpu-memory", "", "plan for a GPU of this `size` that isn't there, such as 40GB")
	addOutputFlag(cmd.Flags(), &output)
	return cmd
}

func runPlan(ctx context.Context, g *globals, p *planFlags, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	planned, err := p.resolve(ctx)
	if err != nil {
		return err
	}
	for _, w := range planned.warnings {
		fmt.Fprintln(g.stderr, "Warning:", w)
	}
	if output == "json" {
		return writeJSON(g.stdout, planned.plan)
	}
	printPlan(g, planned)
	return nil
}

func printPlan(g *globals, p planned) {
	plan := p.plan
	if plan.Device == fit.DeviceCUDA {
		for _, d := range plan.GPUs {
			fmt.Fprintf(g.stdout, "GPU %d     %s, %s, %s free\n", d.Index, d.Name, gb(d.MemoryTotal), gb(d.MemoryFree))
		}
	} else {
		fmt.Fprintf(g.stdout, "device    CPU: %d cores, %s of memory, %s free", p.host.Cores, gb(p.host.MemoryTotal), gb(p.host.MemoryAvailable))
		if p.host.Reason != "" {
			reason, _ := splitRemedy(p.host.Reason)
			fmt.Fprintf(g.stdout, " (no GPU: %s)", reason)
		}
		fmt.Fprintln(g.stdout)
	}
	fmt.Fprintf(g.stdout, "model     %s, %s parameters\n", p.model.Name, group(p.model.Shape.Parameters))
	fmt.Fprintf(g.stdout, "nodes     %d of %d\n", plan.Nodes, p.config.SwarmSize)
	fmt.Fprintf(g.stdout, "why       %s\n", plan.Why)
	fmt.Fprintf(g.stdout, "rule      %s\n", plan.Rule)
	fmt.Fprintf(g.stdout, "limit     %s\n", plan.Limit)
	fmt.Fprintf(g.stdout, "per node  %s resident, %s transient, %s budget\n", gb(plan.PerNode.Resident), gb(plan.PerNode.Transient), gb(plan.PerNode.Budget))
	fmt.Fprintf(g.stdout, "share     %s: %d at a time, %d CPU threads each\n", plan.Share, plan.Slots, plan.Threads)
	for _, at := range plan.Placement {
		if at.GPU != nil {
			fmt.Fprintf(g.stdout, "          %s on GPU %d\n", at.Node, *at.GPU)
		}
	}
}
