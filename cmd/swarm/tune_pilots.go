package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/study"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// pilotOptions are tune's options for pilots of learning rates, which are a sweep.
type pilotOptions struct {
	sweepOptions
	up     *pflag.FlagSet // flags of swarm up, which the pilots get
	rates  string
	rounds int
}

// upFlags are the flags of swarm up that tune has. Its --set sets all other keys.
var upFlags = []string{"model", "nodes", "device", "seed", "yes"}

// memoryFlags are flags of tune with which it recommends a batch size.
var memoryFlags = []string{
	"auto", "gpu-memory", "gpu", "target-effective-batch", "safety-margin", "devices", "dir", "list", "profile", "profile-seconds", "apply", "undo", "force",
}

func (p *pilotOptions) add(f *pflag.FlagSet) {
	p.up = pflag.NewFlagSet("up", pflag.ContinueOnError)
	addPlanFlags(p.up, &p.Plan)
	p.up.BoolVarP(&p.yes, "yes", "y", false, "download missing model weights without asking")
	for _, name := range upFlags {
		f.AddFlag(p.up.Lookup(name))
	}
	f.StringVar(&p.rates, "rates", "", "learning `rates` to try, separated by commas (default: a third of CONFIG's rate, the rate, three times it)")
	f.IntVar(&p.rounds, "rounds", study.PilotRounds, "rounds at each learning rate; a higher number extends finished pilots")
}

// triesRates reports whether the command is to try learning rates instead of recommending a batch size.
func (o *tuneOptions) triesRates(f *pflag.FlagSet) bool {
	return o.Workload == "sapo" && len(o.Command) == 0 && !slices.ContainsFunc(memoryFlags, f.Changed)
}

// refusePilotFlags rejects flags that have no effect on a recommended batch size.
func refusePilotFlags(f *pflag.FlagSet) error {
	for _, name := range append([]string{"rates", "rounds"}, upFlags...) {
		if f.Changed(name) {
			return fail.Usage(fmt.Errorf("--%s is for learning rates, which tune tries with --workload sapo and without --auto and --gpu-memory", name),
				"swarm tune --workload sapo 4loc4ext")
		}
	}
	return nil
}

func runPilots(ctx context.Context, g *globals, o *tuneOptions, f *pflag.FlagSet, args []string) error {
	config := stats.BaselinePreset
	if _, err := os.Stat("swarm.yaml"); err == nil {
		config = "swarm.yaml" // as for the batch size
	}
	switch len(args) {
	case 0:
	case 1:
		config = args[0]
	default:
		return fail.Usage(fmt.Errorf("tune tries the learning rates of one configuration, not of %d", len(args)), "swarm tune --workload sapo "+args[0])
	}
	p := &o.pilots
	for _, name := range upFlags {
		if flag := f.Lookup(name); flag.Changed {
			flag.Changed = false // p.up has the same flag, but has not parsed it
			if err := p.up.Set(name, flag.Value.String()); err != nil {
				return err
			}
		}
	}
	for _, text := range o.Sets {
		if err := p.up.Set("set", text); err != nil {
			return err
		}
	}
	up := append([]string{"up", config}, commandline.Given(p.up, func(name string) bool { return name == "yes" }, nil)...)
	if err := p.up.Set("rounds", strconv.Itoa(p.rounds)); err != nil {
		return err
	}
	p.Pilots = &study.Pilots{Rates: p.rates, RatesGiven: f.Changed("rates"), Up: up}
	p.passed, p.NodesGiven, p.Seeds = passedOn(p.up), f.Changed("nodes"), "1"
	p.dryRun, p.output = o.DryRun, o.output
	return runSweep(ctx, g, &p.sweepOptions, []string{config})
}
