package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/background"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/notify"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/study"
)

type sweepOptions struct {
	study.Options
	price  plan.PriceFlag
	hooks  notify.Hooks
	yes    bool
	dryRun bool
	detach bool
	output string

	passed []string // the flags for swarm up
}

func newSweepCommand(g *globals) *cobra.Command {
	var o sweepOptions
	cmd := &cobra.Command{
		Use:   "sweep [CONFIG... [--grid KEY=VALUE,VALUE] | --study STUDY [EXPERIMENT...]]",
		Short: "Run several experiments or a study with several seeds",
		Long: "sweep runs `swarm up` for every configuration, a preset or a YAML file, and every seed: first all\n" +
			"configurations with the first seed, then all with the second, so that each has a result early. Its\n" +
			"other flags are those of up. Everything is checked before the first run starts. A failed run does\n" +
			"not stop the others and is tried once more at the end.\n\n" +
			"--study runs the experiments of a study, or those of them that are named, with its seeds, rounds,\n" +
			"nodes and keys. Your flags override these, except what the study compares. --model chooses its model\n" +
			"(default " + configs.NanoModel + "). A YAML file is a study of your own (examples/grid.yaml).\n\n" +
			"--grid runs each configuration with each combination of values and says at the end which is best:\n" +
			"all pairs of arms are compared, corrected by Holm. An arm is named after its values:\n" +
			"4loc4ext-lr1e-4-G8.\n\n" +
			"The same command continues an interrupted sweep. If a sweep is killed (kill -9), its run continues\n" +
			"by itself, and the next sweep waits for it. --on-complete and --webhook run at the end of the whole\n" +
			"sweep.",
		Example: `  swarm sweep --study paper
  swarm sweep --study off-policy 4loc4ext-importance --seeds 42,
  swarm sweep --study paper --model gpt2 --price 1.29/h --dry-run
  swarm sweep 8loc0ext 6loc2ext 4loc4ext 2loc6ext --seeds 5 --price 1.29/h
  swarm sweep 4loc4ext --grid learning_rate=1e-4,3e-4 --grid num_generations=4,8 --seeds 5
  swarm sweep 8loc0ext mine.yaml --seeds 1,5,9 --rounds 200 --on-complete 'sudo shutdown -h now'
  swarm sweep 8loc0ext 4loc4ext --seeds 2 --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.Study == "" && len(args) == 0 {
				return fail.Usage(errors.New("sweep needs at least one configuration, or a study"),
					"swarm sweep --study paper, or swarm sweep 8loc0ext 4loc4ext --seeds 4")

			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseFixed(cmd.Flags()); err != nil {
				return err
			}
			if cmd.Flags().Changed("seed") && strings.Contains(o.Seeds, ",") {
				return fail.Usage(fmt.Errorf("--seed and a list of --seeds exclude each other: --seeds %s names the seeds", o.Seeds), "one of them")
			}
			o.passed = passedOn(cmd.Flags())
			o.SeedsGiven, o.NodesGiven = cmd.Flags().Changed("seeds"), cmd.Flags().Changed("nodes")
			return runSweep(cmd.Context(), g, &o, args)
		},
	}
	f := cmd.Flags()
	addPlanFlags(f, &o.Plan)
	o.price.Add(f)
	addHookFlags(f, &o.hooks)
	f.Var(&o.Plan.GPULimit, "gpu-memory", "use at most this `size` of each GPU's memory, such as 15 or 15GB")
	f.BoolVarP(&o.yes, "yes", "y", false, "download missing model weights without asking")
	f.StringVar(&o.Study, "study", "", "run a `study`, by name or YAML file: "+strings.Join(configs.Studies(), ", "))
	f.StringArrayVar(&o.Grid, "grid", nil, "run each configuration with each of several values of a key: `KEY=VALUE,VALUE`; may be repeated")
	f.StringVar(&o.Seeds, "seeds", "1",
		"how many `seeds`, counted from --seed, or a list such as 1,5,9 (default for a study: its own)")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the runs, and their estimated time and price; start nothing")
	f.BoolVar(&o.detach, "detach", false, "sweep in the background, even after this session ends")
	addLinesFlag(f, &o.output, "one event")
	for _, name := range fixedByArguments {
		f.Lookup(name).Hidden = true
	}
	return cmd
}

// fixedByArguments are flags of up that the sweep's arguments set.
var fixedByArguments = []string{"config", "preset", "experiment", "name"}

func refuseFixed(f *pflag.FlagSet) error {
	for _, name := range fixedByArguments {
		if f.Changed(name) {
			return fail.Usage(
				fmt.Errorf("sweep takes no --%s: its arguments are the configurations, each with its own name", name),
				"swarm sweep --help")

		}
	}
	return nil
}

func runSweep(ctx context.Context, g *globals, o *sweepOptions, names []string) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	price, err := o.price.Price(os.Getenv)
	if err != nil {
		return err
	}
	if err := o.hooks.Check(); err != nil {
		return err
	}
	inBack := o.detach && inBackground(g)
	if !o.detach && !o.dryRun {
		g.neverWait(o.output == "json")
	}
	signals, stopSignals := study.Signals()
	defer stopSignals()
	notice := "Stopping the sweep after a checkpoint of its run. Repeat to stop now."
	if o.Pilots != nil {
		notice = "Stopping after a checkpoint of the pilot. Repeat to stop now."
	}
	stoppable, interrupts := interrupt.Notify(ctx, g.stderr, notice)
	defer interrupts.Close()
	host, err := g.studyHost(o.yes)
	if err != nil {
		return err
	}
	asJSON := o.output == "json" && !inBack // a log is text
	s, err := study.New(stoppable, host, o.Options, names, price, o.passed, asJSON)
	if err != nil {
		return interrupt.Exit(stoppable, err)
	}
	defer s.Close()
	if o.dryRun {
		return s.DryRun(stoppable)
	}
	if o.detach && !inBack {
		interrupts.Close()
		stopSignals()
		return detachSweep(g, s.Runs(), o.output == "json")
	}
	if err := s.Open(stoppable); err != nil {
		return interrupt.Exit(stoppable, err)
	}
	if inBack {
		if err := announceSweep(g, s); err != nil {
			return err
		}
	}
	err = s.Serve(stoppable, signals)
	interrupts.Close() // everything is recorded: from here, a signal ends the program at once, even if stdout's reader hangs
	stopSignals()
	ctx = context.WithoutCancel(ctx)
	return s.End(ctx, err, func(e study.Ending) {
		o.hooks.Finish(ctx, g.hookProcess(), notify.Ending{
			Experiment: e.Experiments, State: e.Summary.State, ExitCode: e.Summary.ExitCode, Summary: e.Summary,
			Folder: e.Folder, Log: filepath.Join(e.Folder, "sweep.log"),
		})
	})
}

// studyHost returns what a sweep, or the plan of one, needs of this process.
func (g *globals) studyHost(yes bool) (study.Host, error) {
	typed, _ := commandline.Typed(g.args, grammar())
	variable, err := commandline.Began(typed)
	return study.Host{
		Host: g.planHost(), Stdin: g.stdin, Stdout: g.stdout, Program: g.invocation(), Began: variable,
		EnsureModels: func(ctx context.Context, p plan.Planned) (map[string]string, error) {
			return ensureModels(ctx, g, p, yes)
		},
	}, err

}

// detachSweep starts the sweep in the background and prints how to watch it.
func detachSweep(g *globals, runs int, asJSON bool) error {
	a, err := startBackground(g)
	if a == nil || err != nil {
		return err
	}
	if asJSON {
		return writeJSON(g.stdout, a)
	}
	program := g.invocation()
	_, err = fmt.Fprintf(g.stdout, "The sweep of %s continues in the background, process %d.\nwatch  %s attach\nlog    %s\nstop   %s down\n",
		units.Plural(runs, "run"), a.PID, program, a.Log, program)
	return err
}

// announceSweep tells the process that started the sweep in the background that it is running.
func announceSweep(g *globals, s *study.Sweep) error {
	if err := os.MkdirAll(s.Folder(), 0o700); err != nil {
		return g.home.Error(err)
	}
	return g.console.Announce(background.Announcement{
		Experiment: strings.Join(s.Experiments(), " "), PID: os.Getpid(), Log: filepath.Join(s.Folder(), "sweep.log"),
	})
}

// ownSweepFlags are flags of sweep that swarm up doesn't have, or that the sweep sets for it.
var ownSweepFlags = map[string]bool{
	"study": true, "grid": true, "seeds": true, "seed": true, "dry-run": true, "detach": true, "on-complete": true, "on-complete-file": true, "webhook": true, "webhook-file": true, "output": true, "home": true,
}

// passedOn returns the given flags as arguments of swarm up.
func passedOn(f *pflag.FlagSet) []string {
	return commandline.Given(f, func(name string) bool { return ownSweepFlags[name] }, nil)
}
