package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/job/tune"
	"github.com/sapo-swarm/swarm/launcher/plan"
)

type tuneOptions struct {
	tune.Options
	gpuMemory plan.Size // GB has the meaning of the profile's unit
	output    string
	pilots    pilotOptions
}

func newTuneCommand(g *globals) *cobra.Command {
	var o tuneOptions
	cmd := &cobra.Command{
		Use:   "tune (--auto | --gpu-memory SIZE) [--workload NAME or FILE] [--apply] [-- COMMAND] | --workload sapo [CONFIG]",
		Short: "Recommend a batch size that fits, or try learning rates",
		Long: "tune reads a workload profile, built in (--list) or your own YAML file (docs/TUNE.md), and\n" +
			"recommends a batch size, accumulation and other values for a GPU, with the memory they are expected\n" +
			"to use, item by item. --profile measures the training itself at a few batch sizes. --apply writes\n" +
			"the values into the training's files, with a backup beside each. --undo restores them. Without\n" +
			"--workload it uses the profile whose files are in the folder, else sapo.\n\n" +
			"--workload sapo without --auto and --gpu-memory tries learning rates: one short run of CONFIG (a\n" +
			"preset or YAML file) at a third of its rate, at the rate and at three times it, or at each of\n" +
			"--rates. The advice is the highest rate whose gradient norm does not grow as before a collapse and\n" +
			"whose reward is not below the others'. Each rate has one seed, so the advice is a hint. The same\n" +
			"command continues. Without CONFIG it tries swarm.yaml, or else 8loc0ext, which does not share and\n" +
			"says nothing about a run that shares. Name such a run: swarm tune --workload sapo 4loc4ext.\n\n" +
			"Values come from --set, else from the training's files in --dir, else from the profile's defaults.\n" +
			"Each is shown with its source. --apply refuses while the memory estimate rests on a default that\n" +
			"neither a file nor --set confirms.\n\n" +
			"--gpu-memory 24 or 24GB uses the profile's unit: GiB if its author counts in GiB, as guide 2 does.\n" +
			"Exit code 3: no GPU with --auto, the smallest batch is expected to exceed the memory, or --apply without\n" +
			"an estimate or a measurement that it fits.",
		Example: `  swarm tune --auto
  swarm tune --workload naics-embedder --gpu-memory 24
  swarm tune --workload naics-embedder --auto --apply
  swarm tune --workload mine.yaml --auto --profile -- python train.py --batch-size {batch_size}
  swarm tune --workload sapo 4loc4ext --nodes 4`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Given = map[string]bool{}
			for _, name := range []string{"gpu", "target-effective-batch", "safety-margin", "devices", "profile-seconds"} {
				o.Given[name] = cmd.Flags().Changed(name)
			}
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				args, o.Command = args[:at], args[at:]
			}
			if o.triesRates(cmd.Flags()) {
				return runPilots(cmd.Context(), g, &o, cmd.Flags(), args)
			}
			if err := usage.NoArgs(cmd, args); err != nil {
				return err
			}
			if err := refusePilotFlags(cmd.Flags()); err != nil {
				return err
			}
			return runTune(cmd.Context(), g, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Workload, "workload", "", "profile's `name`, or its YAML file")
	f.BoolVar(&o.List, "list", false, "list the built-in profiles")
	f.BoolVar(&o.Auto, "auto", false, "take this host's GPU")
	f.Var(&o.gpuMemory, "gpu-memory", "`size` of the GPU's memory, such as 24, 24GB or 24GiB; a number without a unit is GB")
	f.IntVar(&o.GPU, "gpu", 0, "with --auto: `index` of the GPU (default: the GPU with the most memory)")
	f.IntVar(&o.Target, "target-effective-batch", 0, "effective batch to aim for (default: the profile's)")
	f.Float64Var(&o.Margin, "safety-margin", 0, "share of the GPU's memory to use, 0.05 to 1 (default: the profile's, usually 0.85)")
	f.IntVar(&o.Devices, "devices", 0, "number of data-parallel GPUs (default: from the files, else 1)")
	f.StringArrayVar(&o.Sets, "set", nil, "set a profile's `name=value` over its file's, such as n_negatives=16, or a key of CONFIG; may be repeated")
	f.StringVar(&o.Dir, "dir", ".", "`folder` of the training, with its files, in which -- COMMAND runs")
	f.BoolVar(&o.Profile, "profile", false, "measure: run the command after --, which contains {batch_size}, at a few batch sizes")
	f.IntVar(&o.Seconds, "profile-seconds", 60, "maximum `seconds` for each of these runs")
	f.BoolVar(&o.Apply, "apply", false, "write the values into the training's files, with a backup beside each")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what --apply would change, as a diff, or the runs at the learning rates")
	f.BoolVar(&o.Undo, "undo", false, "restore what the last --apply changed")
	f.BoolVar(&o.Force, "force", false, "with --undo: also restore files that were edited since, with a backup of their text")
	o.pilots.add(f)
	addOutputFlag(f, &o.output)
	return cmd
}

func runTune(ctx context.Context, g *globals, o *tuneOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	o.GPUMemory, o.Given["gpu-memory"] = o.gpuMemory.Text, o.gpuMemory.Given
	if err := o.Check(); err != nil {
		return err
	}
	switch {
	case o.List:
		return listWorkloads(g, o.output)
	case o.Undo:
		return undoTune(g, o)
	}
	answer, err := tune.Recommend(ctx, o.Options, tune.Session{
		Home: g.home, Logger: g.logger, Stderr: g.stderr, Environ: os.Environ(), Sources: configSources(os.Environ(), true), FitSettings: plan.FitSettings,
	})
	if err != nil {
		return err
	}
	d := answer.Document()
	if o.output == "json" {
		err = writeJSON(g.stdout, d)
	} else {
		for _, w := range d.Warnings {
			fmt.Fprintln(g.stderr, "Warning:", w)
		}
		err = screen.Print(g.stdout, func(p *table.Page) { answer.Print(p, d) })
	}
	if err != nil {
		return err
	}
	return answer.Err()
}

func undoTune(g *globals, o *tuneOptions) error {
	list, err := tune.Undo(g.home, o.Options)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return writeJSON(g.stdout, list)
	}
	for _, r := range list {
		line := "restored  " + r.Path
		if r.Left != "" {
			line = "left      " + r.Path + ": " + r.Left
		}
		if _, err := fmt.Fprintln(g.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

func listWorkloads(g *globals, output string) error {
	list, err := tune.List()
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(g.stdout, list)
	}
	rows := table.New(table.Column{}, table.Column{Wrap: true}, table.Column{Drop: 1})
	for _, w := range list {
		rows.Add(w.Name, w.About, w.Source)
	}
	return screen.Print(g.stdout, func(p *table.Page) { p.Table(rows) })
}
