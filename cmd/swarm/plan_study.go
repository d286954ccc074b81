package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/study"
)

// runStudyPlan implements plan --study.
func runStudyPlan(ctx context.Context, g *globals, o *planOptions) error {
	cost, err := o.price.Price(os.Getenv)
	if err != nil {
		return err
	}
	host, err := g.studyHost(false)
	if err != nil {
		return err
	}
	nodesGiven := o.flags.Changed("nodes")
	for _, name := range fixedByArguments {
		if o.flags.Changed(name) {
			return fail.Usage(fmt.Errorf("--study and --%s exclude each other: a study has its own configurations", name), "swarm plan --study "+o.study)
		}
	}
	if named := o.plan.Config.Config; len(named) > 0 {
		return fail.Usage(fmt.Errorf("plan --study plans the whole study and takes no argument %q", named[0]),
			"swarm plan --study "+shell.Quote(o.study)+", or swarm sweep --study with the experiments and --dry-run")
	}
	s, err := study.Load(o.study, &o.plan.Config, nodesGiven)
	if err != nil {
		return err
	}
	seeds := s.SeedCount()
	if o.flags.Changed("seeds") {
		parsed, err := study.ParseSeeds(o.seeds)
		if err != nil {
			return err
		}
		seeds = parsed.Len()
	}
	for _, d := range o.differences {
		if !(d > 0 && d <= 1) {
			return &configs.Error{Key: "difference", Value: fmt.Sprint(d), Allowed: "above 0, at most 1"}
		}
	}
	x, err := study.NewCost(ctx, host, s, &o.plan, nodesGiven, seeds, o.differences, cost)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if o.output == "json" {
		return writeJSON(g.stdout, x)
	}
	return screen.Print(g.stdout, func(p *table.Page) {
		study.PrintCost(p, s, x)
		p.Command(fmt.Sprintf("%s sweep %s%s", g.invocation(), s.Flags(), againFlags(o.flags)))
	})
}

// againFlags returns the flags given to plan --study, except those that name the study, quoted for a shell. Each
// begins with a space.
func againFlags(f *pflag.FlagSet) string {
	named := func(name string) bool {
		return slices.Contains([]string{"study", "model", "output", "home", "difference"}, name)
	}
	text := ""
	for _, arg := range commandline.Given(f, named, nil) {
		text += " " + shell.Quote(arg)
	}
	return text
}
