package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
)

type sweepOptions struct {
	plan       plan.Options
	price      priceFlag
	completion completion
	study      string
	grid       []string // KEY=VALUE,VALUE
	seeds      string
	yes        bool
	dryRun     bool
	detach     bool
	output     string

	passed     []string // of its flags, those for swarm up
	seedsGiven bool
	nodesGiven bool
}

func newSweepCommand(g *globals) *cobra.Command {
	var o sweepOptions
	cmd := &cobra.Command{
		Use:   "sweep [CONFIG... [--grid KEY=VALUE,VALUE] | --study STUDY [EXPERIMENT...]]",
		Short: "Run several experiments or a study, with several seeds, one after the other",
		Long: "sweep runs swarm up for every configuration, a preset or a YAML file, and every seed: first all configurations with the first\n" +
			"seed, then all with the second, so that early on each has a result. Its other flags are those of up. Everything is checked before\n" +
			"the first run starts. A run that fails is noted, the others go on, and at the end it is tried once more.\n\n" +
			"--study runs the experiments of a study (" + strings.Join(configs.Studies(), ", ") + ")\n" +
			"with its seeds, rounds, nodes and keys, or those of them that are named; your flags win over these, but for what the study\n" +
			"compares. --model chooses its model (default " + configs.NanoModel + "). A YAML file is a study of your own (examples/grid.yaml).\n\n" +
			"--grid runs each configuration with each combination of values, and says at the end which is best: all arms are compared, each\n" +
			"with each, corrected by Holm. An arm is named by its values: 4loc4ext-lr1e-4-G8.\n\n" +
			"The same command goes on with an interrupted sweep: the database says which runs are done. Of a sweep that was killed (kill -9) the\n" +
			"run goes on by itself; the next sweep waits for it. --on-complete and --webhook are for the end of the whole sweep.",
		Example: `  swarm sweep --study paper
  swarm sweep --study off-policy 4loc4ext-importance --seeds 42,
  swarm sweep --study paper --model gpt2 --price 1.29/h --dry-run
  swarm sweep 8loc0ext 6loc2ext 4loc4ext 2loc6ext --seeds 3 --price 1.29/h
  swarm sweep 4loc4ext --grid learning_rate=1e-4,3e-4 --grid num_generations=4,8 --seeds 3
  swarm sweep 8loc0ext mine.yaml --seeds 1,5,9 --rounds 200 --on-complete 'sudo shutdown -h now'
  swarm sweep 8loc0ext 4loc4ext --seeds 2 --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.study == "" && len(args) == 0 {
				return fail.Usage(errors.New("sweep needs at least one configuration, or a study"),
					"swarm sweep --study paper, or swarm sweep 8loc0ext 4loc4ext --seeds 3")

			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseFixed(cmd.Flags()); err != nil {
				return err
			}
			o.passed = passedOn(cmd.Flags())
			o.seedsGiven, o.nodesGiven = cmd.Flags().Changed("seeds"), cmd.Flags().Changed("nodes")
			return runSweep(cmd.Context(), g, &o, args)
		},
	}
	f := cmd.Flags()
	addPlanFlags(f, &o.plan)
	o.price.add(f)
	o.completion.add(f)
	f.Var(&o.plan.GPULimit, "gpu-memory", "use each GPU as if it were a card of this `size`, such as 15 or 15GB")
	f.BoolVarP(&o.yes, "yes", "y", false, "download the models' weights without a question where they are missing")
	f.StringVar(&o.study, "study", "", "run a `study`, by name or YAML file: "+strings.Join(configs.Studies(), ", "))
	f.StringArrayVar(&o.grid, "grid", nil, "run each configuration with each of several values of a key: `KEY=VALUE,VALUE`; may be repeated")
	f.StringVar(&o.seeds, "seeds", "1",
		"how many `seeds` (of a study by default its own), from the configuration's own (--seed) on; or a list such as 1,5,9")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the runs, and what is known of their time and price; start nothing")
	f.BoolVar(&o.detach, "detach", false, "sweep in the background, beyond the end of this session")
	addLinesFlag(f, &o.output, "one event")
	for _, name := range fixedByArguments {
		f.Lookup(name).Hidden = true
	}
	return cmd
}

// fixedByArguments are flags of up that a sweep's arguments decide.
var fixedByArguments = []string{"config", "preset", "experiment", "name"}

func refuseFixed(f *pflag.FlagSet) error {
	for _, name := range fixedByArguments {
		if f.Changed(name) {
			return fail.Usage(
				fmt.Errorf("sweep takes no --%s: its arguments are the configurations, and each has a name of its own", name),
				"swarm sweep --help")

		}
	}
	return nil
}

func runSweep(ctx context.Context, g *globals, o *sweepOptions, names []string) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	price, err := o.price.price(os.Getenv)
	if err != nil {
		return err
	}
	if err := o.completion.check(); err != nil {
		return err
	}
	inBack := o.detach && inBackground(g)
	signals, stopSignals := sweepSignals()
	defer stopSignals()
	stoppable, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping the sweep after a checkpoint of its run. Again to stop now.")
	defer interrupts.Close()
	sources, judge, err := o.sources(names)
	if err != nil {
		return err
	}
	items, err := o.items(stoppable, g, sources)
	if err != nil {
		return interrupt.Exit(stoppable, err)
	}
	if o.grid != nil {
		judge = gridVerdict(items, len(items)/len(sources))
	}
	s := &sweep{g: g, items: items, judge: judge, price: price, passed: o.passed, signals: signals}
	if o.output == "json" && !inBack { // a log is read by people
		s.lines = &sweepLines{out: g.stdout}
	}
	defer s.close()
	if o.dryRun {
		return s.dryRun(stoppable)
	}
	if o.detach && !inBack {
		interrupts.Close()
		stopSignals()
		return s.detach(o.output == "json")
	}
	if err := s.open(stoppable); err != nil {
		return interrupt.Exit(stoppable, err)
	}
	if inBack {
		if err := s.announce(); err != nil {
			return err
		}
	}
	err = s.serve(stoppable)
	interrupts.Close() // all is recorded: a signal ends the program at once, should stdout's reader hang
	stopSignals()
	return s.end(context.WithoutCancel(ctx), err, &o.completion)
}

// sources are the configurations of a sweep: those named, with a grid its arms, or a study's, all or those named, whose seeds count where none were
// asked for. A study has a verdict.
func (o *sweepOptions) sources(names []string) ([]sweepSource, *sweepVerdict, error) {
	switch {
	case o.study != "" && o.grid != nil:
		return nil, nil, fail.Usage(errors.New("--grid and --study are two ways to name what is compared"),
			"a grid: key in a study's file, or swarm sweep CONFIG --grid KEY=VALUE,VALUE")

	case o.study == "":
		if err := refuseStudyFile(names); err != nil {
			return nil, nil, err
		}
	}
	if o.grid != nil {
		sources, err := o.gridSources(names)
		return sources, nil, err
	}
	if o.study == "" {
		return sourcesOf(names), nil, nil
	}
	study, err := loadStudy(o.study, &o.plan.Config, o.nodesGiven)
	if err != nil {
		return nil, nil, err
	}
	if !o.seedsGiven {
		o.seeds = strconv.Itoa(study.With(study.named).Seeds)
	}
	judge, err := verdictOf(study)
	if err != nil {
		return nil, nil, err
	}
	sources, err := study.sources(names...)
	return sources, judge, err
}

// open prepares what a sweep needs beside its plan. What it opened, close closes.
func (s *sweep) open(ctx context.Context) (err error) {
	if err := os.MkdirAll(string(s.g.home), 0o755); err != nil {
		return s.g.home.Error(err)
	}
	if s.locks, err = lockSweep(s.g.home, s.items); err != nil {
		return err
	}
	if err := checkSweepDisk(s.g.home, s.items); err != nil {
		return err
	}
	python, err := s.g.python.Find(ctx)
	if err != nil {
		return err
	}
	for _, item := range s.items {
		if !item.done && plan.EngineDevice(item.p.Plan) != "cpu" && !python.CUDA {
			return plan.NoCUDA(python, item.String()+" is planned for a GPU")
		}
	}
	// Opened for writing first: that makes the database, and brings an older one up to date.
	db, err := store.Open(ctx, s.g.home.Database(), store.Options{Warn: store.LogNews(s.g.logger)})
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	s.folder = s.g.home.Path("sweeps", time.Now().UTC().Format("20060102T150405.000Z"))
	s.reader, err = store.OpenReader(ctx, s.g.home.Database())
	return err
}

func (s *sweep) close() {
	if s.reader != nil {
		s.reader.Close()
	}
	s.locks.release()
}

// detach starts the sweep in the background and says how to watch it.
func (s *sweep) detach(asJSON bool) error {
	a, err := background()
	if a == nil || err != nil {
		return err
	}
	if asJSON {
		return writeJSON(s.g.stdout, a)
	}
	program := s.g.invocation()
	_, err = fmt.Fprintf(s.g.stdout, "The sweep of %s goes on in the background, process %d.\nwatch  %s attach\nlog    %s\nstop   %s down\n",
		units.Plural(len(s.items), "run"), a.PID, program, a.Log, program)
	return err
}

// announce tells whoever started the sweep in the background that it goes on.
func (s *sweep) announce() error {
	if err := os.MkdirAll(s.folder, 0o755); err != nil {
		return s.g.home.Error(err)
	}
	return s.g.console.announce(announcement{
		Experiment: strings.Join(s.experiments(), " "), PID: os.Getpid(), Log: filepath.Join(s.folder, "sweep.log"),
	})
}
