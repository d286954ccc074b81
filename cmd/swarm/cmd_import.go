package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/metrics/export"
	"github.com/sapo-swarm/swarm/metrics/rlswarm"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

type importOptions struct {
	rlswarm.Options
	transplants int
	seed        int64
	dryRun      bool
	output      string
}

// importable lists the sources that import accepts.
const importable = "a file of swarm export --format sqlite, another home's swarm.db, or an rl-swarm folder with rewards/ or logs/, such as experiments/NAME"

func newImportCommand(g *globals) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE or FOLDER",
		Short: "Import runs from another home's export, or from an rl-swarm folder",
		Long: "import FILE reads the finished runs of another home, from the file of `swarm export --format sqlite`\n" +
			"or from its swarm.db. report and compare then show them beside this home's, a study's verdict counts\n" +
			"both, and a sweep does not repeat what is done. So several machines can do one study. Importing\n" +
			"again changes nothing, or updates a run that has continued there. Weights and journals are not\n" +
			"imported, so an imported run cannot continue here.\n\n" +
			"import FOLDER reads an experiment's folder of rl-swarm on Google Drive\n" +
			"(rewards/round_R/stage_S/*.json, logs/*/metrics.jsonl and cumulative_metrics.jsonl, config.yaml,\n" +
			"peers, state, progress), or all experiments in FOLDER or FOLDER/experiments. Each becomes a run.\n" +
			"Rewards that were summed over a node's I·G completions become means, and the sums are kept. Rows\n" +
			"that were logged twice count once. Files that cannot be read are named and skipped. FOLDER is only\n" +
			"read, and may be on a network.",
		Example: "  swarm import paper.db.gz && swarm sweep --study paper\n" +
			"  swarm import /content/drive/MyDrive/rl-swarm\n" +
			"  swarm import experiments/sapo_gpt2_config2_4loc4ext --model gpt2 --dry-run\n" +
			"  swarm import old/baseline --name gpt2-8loc0ext --num-train-samples 8 --num-transplant-trees 0",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fail.Usage(fmt.Errorf("import takes one file or folder, not %d", len(args)), cmd.CommandPath()+" --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runImport(cmd.Context(), g, args[0], &o, cmd.Flags())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "`name` of the experiment (default: the folder's); for a single experiment")
	f.StringVar(&o.Model, "model", "", "`model` that was trained (the files do not record it)")
	f.IntVar(&o.NumTrainSamples, "num-train-samples", 0, "I, if the folder does not record it or is wrong")
	f.IntVar(&o.transplants, "num-transplant-trees", 0, "J, if the folder does not record it or is wrong")
	f.IntVar(&o.NumGenerations, "num-generations", 0, "G, likewise")
	f.IntVar(&o.Rounds, "max-rounds", 0, "planned rounds, if the folder does not record them or is wrong")
	f.Int64Var(&o.seed, "seed", 0, "seed, if the folder does not record it or is wrong")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be imported, record nothing")
	addOutputFlag(f, &o.output)
	return cmd
}

func (o *importOptions) check(flags *pflag.FlagSet) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if o.Name != "" && !store.ValidExperiment(o.Name) {
		return &configs.Error{Key: "name", Value: o.Name, Allowed: store.ExperimentRule}
	}
	for _, x := range []struct {
		flag  string
		value int
		low   int
	}{
		{"num-train-samples", o.NumTrainSamples, 1}, {"num-transplant-trees", o.transplants, 0}, {"num-generations", o.NumGenerations, 1},
		{"max-rounds", o.Rounds, 1},
	} {
		if flags.Changed(x.flag) && (x.value < x.low || x.value > 1_000_000) {
			return &configs.Error{Key: x.flag, Value: fmt.Sprint(x.value), Allowed: fmt.Sprintf("a whole number from %d to 1000000", x.low)}
		}
	}
	if flags.Changed("num-transplant-trees") {
		o.NumTransplantTrees = &o.transplants
	}
	if flags.Changed("seed") {
		o.Seed = &o.seed
	}
	return nil
}

func runImport(ctx context.Context, g *globals, path string, o *importOptions, flags *pflag.FlagSet) error {
	if err := o.check(flags); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return importRuns(ctx, g, path, o, flags)
	}
	folders, err := rlswarm.Find(path)
	switch {
	case errors.Is(err, rlswarm.ErrNothing):
		return fail.Hint(err, importable)
	case err != nil:
		return fail.Usage(err, importable)
	}
	if len(folders) > 1 && o.Name != "" {
		return fail.Usage(fmt.Errorf("--name is for one experiment, but %s has %d", path, len(folders)), "swarm import "+folders[0]+" --name "+o.Name)
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	var documents []rlswarm.Imported
	recorded := 0
	for _, folder := range folders {
		d, err := rlswarm.Import(ctx, folder, o.Options, o.dryRun, g.home.Database(), g.logger, g.stderr)
		if err != nil {
			return interrupt.Exit(ctx, err)
		}
		if d.Outcome != rlswarm.Nothing {
			recorded++
		}
		d.Warnings(g.stderr)
		if o.output != "json" {
			d.Print(g.stdout)
		}
		documents = append(documents, d)
	}
	if o.output == "json" {
		if err := writeJSON(g.stdout, documents); err != nil {
			return err
		}
	}
	if recorded == 0 {
		return fail.Hint(fmt.Errorf("import %s: %w", path, rlswarm.ErrNothing), importable)
	}
	return nil
}

// predecessorFlags are the flags that supply what an rl-swarm folder doesn't record.
var predecessorFlags = []string{"name", "model", "num-train-samples", "num-transplant-trees", "num-generations", "max-rounds", "seed"}

// importRuns imports the runs of another home's database, or of an export of it.
func importRuns(ctx context.Context, g *globals, path string, o *importOptions, flags *pflag.FlagSet) error {
	for _, name := range predecessorFlags {
		if flags.Changed(name) {
			return fail.Usage(fmt.Errorf("--%s is for rl-swarm folders: %s is a file, which records it", name, path),
				"swarm import "+shell.Quote(path))

		}
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	from, err := openDatabaseFile(ctx, path)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	defer from.Close()
	if from.Reads(g.home.Database()) {
		return fail.Usage(fmt.Errorf("cannot import %s: it is this home's own database", path), "swarm import --help")
	}
	runs, err := export.Import(ctx, from, g.home.Database(), o.dryRun, g.logger)
	var bad *store.Error
	if errors.As(err, &bad) && bad.Path == from.Name() { // the error is in the file, not in this home's database
		return fail.Usage(errors.New(bad.Error()), importable)
	}
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if o.output == "json" {
		err = writeJSON(g.stdout, append([]store.ImportedRun{}, runs...))
	} else {
		_, err = fmt.Fprint(g.stdout, terminal.ImportedText(runs, o.dryRun))
	}
	if err == nil && len(runs) == 0 {
		return fail.Hint(fmt.Errorf("import %s: it has no runs", path), "swarm export --format sqlite in the home that has the runs")
	}
	return err
}
