package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/job/settings"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
)

type tuneOptions struct {
	workload  string
	list      bool
	auto      bool
	gpuMemory sizeFlag
	gpu       int
	target    int
	margin    float64
	devices   int
	sets      []string
	dir       string
	output    string

	profile bool
	seconds int
	command []string // after --

	apply, dryRun, undo, force bool

	given map[string]bool // flags that were
}

func newTuneCommand(g *globals) *cobra.Command {
	var o tuneOptions
	cmd := &cobra.Command{
		Use:   "tune (--auto | --gpu-memory SIZE) [--workload NAME or FILE] [--apply] [-- COMMAND]",
		Short: "Recommend batch size and accumulation for a training on this GPU, and write them into its files",
		Long: "tune takes a workload profile, built in (--list) or a YAML file of your own (docs/TUNE.md), and says which batch size, accumulation and\n" +
			"other values suit a GPU: with the memory they are expected to take, item by item. --profile runs the training itself at a few batch\n" +
			"sizes and counts with what it measures. --apply writes the values into the training's files, with a backup beside each; --undo puts\n" +
			"them back. Without --workload it is the profile whose files are in the folder, else sapo.\n\n" +
			"Values are those of --set, else of the training's files in --dir, else the profile's defaults; each is shown with its source.\n" +
			"--apply refuses while the memory estimate counts with a default that neither a file nor --set confirms.\n\n" +
			"GB of --gpu-memory are the profile's: 24 and 24GB are 24 GiB where its author counts so, as guide 2 does.\n" +
			"Exit code 3: no GPU with --auto, or the smallest batch is expected to take more than there is.",
		Example: `  swarm tune --auto
  swarm tune --workload naics-embedder --gpu-memory 24
  swarm tune --workload naics-embedder --auto --apply
  swarm tune --workload mine.yaml --auto --profile -- python train.py --batch-size {batch_size}`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.given = map[string]bool{}
			for _, name := range []string{"gpu", "target-effective-batch", "safety-margin", "devices", "profile-seconds"} {
				o.given[name] = cmd.Flags().Changed(name)
			}
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				args, o.command = args[:at], args[at:]
			}
			if err := noArgs(cmd, args); err != nil {
				return err
			}
			return runTune(cmd.Context(), g, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.workload, "workload", "", "profile's `name`, or its YAML file")
	f.BoolVar(&o.list, "list", false, "list the built-in profiles")
	f.BoolVar(&o.auto, "auto", false, "take this host's GPU")
	f.Var(&o.gpuMemory, "gpu-memory", "`size` of the GPU's memory, such as 24, 24GB or 24GiB; a number alone is GB")
	f.IntVar(&o.gpu, "gpu", 0, "with --auto: `index` of the GPU (default: the one with most memory)")
	f.IntVar(&o.target, "target-effective-batch", 0, "effective batch to come near to (default: the profile's)")
	f.Float64Var(&o.margin, "safety-margin", 0, "part of the GPU's memory to use, 0.05 to 1 (default: the profile's, mostly 0.85)")
	f.IntVar(&o.devices, "devices", 0, "GPUs that train together, data-parallel (default: what the files say, else 1)")
	f.StringArrayVar(&o.sets, "set", nil, "`name=value` of the profile that is so, whatever its file says, such as n_negatives=16; may be repeated")
	f.StringVar(&o.dir, "dir", ".", "`folder` of the training: where its files are, and where -- COMMAND runs")
	f.BoolVar(&o.profile, "profile", false, "measure: run the command after -- at a few batch sizes; it has a place for {batch_size}")
	f.IntVar(&o.seconds, "profile-seconds", 60, "`seconds` that each of these runs may take")
	f.BoolVar(&o.apply, "apply", false, "write the values into the training's files, with a backup beside each")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what --apply would change, as a diff")
	f.BoolVar(&o.undo, "undo", false, "put back what the last --apply changed")
	f.BoolVar(&o.force, "force", false, "with --undo: also files that were edited since; their text is kept as a backup")
	addOutputFlag(f, &o.output)
	return cmd
}

func runTune(ctx context.Context, g *globals, o *tuneOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	switch {
	case o.list:
		return listWorkloads(g, o.output)
	case o.undo:
		return undoTune(g, o)
	}
	w, how, err := o.load()
	if err != nil {
		return err
	}
	fixed, err := o.fixed(w)
	if err != nil {
		return err
	}
	t := &tuning{o: o, w: w, how: how, request: workload.Request{
		TargetEffectiveBatch: o.target, SafetyMargin: o.margin, Fixed: fixed, Read: settings.ReadWorkload(o.dir, w),
	}}
	if o.given["devices"] {
		t.request.Devices = o.devices
	}
	if err := t.findGPU(ctx); err != nil {
		return err
	}
	if err := t.recommend(ctx, g); err != nil {
		return err
	}
	if o.apply || o.dryRun {
		if err := t.edit(g); err != nil {
			return err
		}
	}
	if err := t.print(g); err != nil {
		return err
	}
	if r := t.result; !r.Fits && r.ExpectedBytes > 0 {
		return fit.NoRoom(fmt.Errorf("%s is expected to take %s with a batch of %d, and %.0f %% of %s may be used. Try: %s", w.Name,
			t.size(r.ExpectedBytes), r.Batch, 100*r.SafetyMargin, t.size(t.request.GPUMemory), t.smaller()))
	}
	return nil
}

// check refuses flags that contradict each other or are out of range.
func (o *tuneOptions) check() error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	chosen := 0
	for _, flag := range []bool{o.apply, o.dryRun, o.undo, o.list} {
		if flag {
			chosen++
		}
	}
	usage := func(text, try string) error { return fail.Usage(errors.New(text), try) }
	switch {
	case chosen > 1:
		return usage("--apply, --dry-run, --undo and --list exclude each other", "one of them at a time")
	case o.undo || o.list:
		return nil
	case o.auto && o.gpuMemory.given:
		return usage("--auto and --gpu-memory contradict each other", "one of them")
	case !o.auto && !o.gpuMemory.given:
		return usage("which GPU? Neither --auto nor --gpu-memory is given", "swarm tune --auto, or --gpu-memory 24")
	case o.given["gpu"] && !o.auto:
		return usage("--gpu chooses among this host's GPUs", "with --auto")
	case o.given["target-effective-batch"] && (o.target < 1 || o.target > 1<<22):
		return &configs.Error{Key: "target-effective-batch", Value: strconv.Itoa(o.target), Allowed: "a whole number from 1 to 4194304"}
	case o.given["safety-margin"] && !(o.margin >= 0.05 && o.margin <= 1):
		return &configs.Error{Key: "safety-margin", Value: strconv.FormatFloat(o.margin, 'g', -1, 64), Allowed: "a number from 0.05 to 1"}
	case o.given["devices"] && (o.devices < 1 || o.devices > 1024):
		return &configs.Error{Key: "devices", Value: strconv.Itoa(o.devices), Allowed: "a whole number from 1 to 1024"}
	case !o.profile && len(o.command) > 0:
		return usage("a command is run with --profile only", "--profile, or swarm run")
	case o.profile && len(o.command) == 0:
		return usage("--profile needs the command to measure", "swarm tune --auto --profile -- python train.py --batch-size {batch_size}")
	case o.profile && (o.seconds < 1 || o.seconds > 3600):
		return &configs.Error{Key: "profile-seconds", Value: strconv.Itoa(o.seconds), Allowed: "a whole number from 1 to 3600"}
	}
	return nil
}

// fixed reads --set.
func (o *tuneOptions) fixed(w configs.Workload) (map[string]float64, error) {
	fixed := map[string]float64{}
	for _, text := range o.sets {
		name, value, _ := strings.Cut(text, "=")
		v, known := w.Value(name)
		n, numeric := configs.Number(value)
		switch {
		case !known:
			var names []string
			for _, v := range w.Values {
				names = append(names, v.Name)
			}
			return nil, &configs.Error{Key: "set", Value: text, Allowed: "NAME=NUMBER with a value of " + w.Name + ": " + strings.Join(names, ", ")}
		case !numeric || n < 0 || v.Role != "" && !(n >= 1 && n <= 1<<16 && n == float64(int(n))):
			return nil, &configs.Error{Key: "set", Value: text, Allowed: "NAME=NUMBER; a batch or accumulation is a whole number from 1 to 65536"}
		}
		fixed[name] = n
	}
	return fixed, nil
}
