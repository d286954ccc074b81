package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/doctor"
	"github.com/sapo-swarm/swarm/launcher/job/diagnose"
	"github.com/sapo-swarm/swarm/node/policy"
)

func newDoctorCommand(g *globals) *cobra.Command {
	var o diagnose.Options
	var output string
	cmd := &cobra.Command{
		Use:   "doctor [--oom LOG [--workload NAME or FILE]]",
		Short: "Check this machine, or explain a training's out-of-memory log",
		Long: "doctor checks what swarm needs on this machine, and says what is missing and how to fix it.\n\n" +
			"doctor --oom LOG reads the log of any training and explains why memory ran out, in numbers (asked,\n" +
			"free, held by whom), and what to do in which order, with the exact edits for a workload profile\n" +
			"(`swarm tune --list`). LOG may be a folder, for its newest log, or - for stdin. It exits with 0 if\n" +
			"memory ran out, with 1 if the log shows no shortage.",
		Example: "  swarm doctor\n  swarm doctor --oom logs/slurm-123.err\n  swarm doctor --oom logs --workload verl-grpo --dir ~/grpo",
		Args:    usage.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("oom") {
				return runDoctorOOM(g, o, output)
			}
			for _, name := range []string{"workload", "dir"} {
				if cmd.Flags().Changed(name) {
					return fail.Usage(fmt.Errorf("--%s needs --oom", name), "swarm doctor --oom LOG --"+name+" ...")
				}
			}
			return runDoctor(cmd.Context(), g, output)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Log, "oom", "", "explain the `log` of a training that ran out of memory: a file, a folder, or - for stdin")
	f.StringVar(&o.Workload, "workload", "", "with --oom: profile's `name`, or its YAML file (default: guessed from the log)")
	f.StringVar(&o.Dir, "dir", ".", "with --oom: `folder` of the training, where its configuration files are")
	addOutputFlag(f, &output)
	return cmd
}

// runDoctorOOM explains a training's log. The exit code is 0 if memory ran out, 1 if the log shows no shortage.
func runDoctorOOM(g *globals, o diagnose.Options, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	o.Stdin, o.Stderr = g.stdin, g.stderr
	d, err := diagnose.Explain(o)
	if err != nil {
		return err
	}
	if output == "json" {
		err = writeJSON(g.stdout, d)
	} else {
		err = screen.Print(g.stdout, d.Print)
	}
	if err == nil && d.Shortage == nil {
		return fail.Exit(fail.ExitFailed)
	}
	return err
}

func runDoctor(ctx context.Context, g *globals, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	findings, err := doctor.Check(ctx, doctor.Options{
		Version: version, Home: g.home, Python: &g.python, Remedy: remedy, MinFreeDisk: coordinator.MinFreeDisk,
		StartEngine: func(ctx context.Context, threads int) (*policy.Engine, error) {
			return g.python.Start(ctx, g.stderr, threads)
		},
	})
	if err != nil {
		return err
	}
	bad := 0
	for _, f := range findings {
		if !f.OK {
			bad++
		}
	}
	if output == "json" {
		if err := writeJSON(g.stdout, findings); err != nil {
			return err
		}
	} else if err := screen.Print(g.stdout, func(p *table.Page) { p.Table(doctor.Table(findings)) }); err != nil {
		return err
	}
	if bad > 0 {
		return fail.Exit(fail.ExitFailed)
	}
	return nil
}
