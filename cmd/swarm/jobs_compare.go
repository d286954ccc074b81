package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// compareJobs prints jobs side by side. It refuses flags that only apply to experiments.
func (o *compareOptions) compareJobs(g *globals, jobs []jobstats.Job, flags *pflag.FlagSet) error {
	var wrong error
	flags.Visit(func(f *pflag.Flag) {
		local := f.Name != "home" && f.Name != "verbose" && f.Name != "python"
		if local && f.Name != "output" && wrong == nil {
			wrong = fail.Usage(errors.New("--"+f.Name+" compares experiments, and all named are jobs"), "swarm compare JOB JOB, with -o json")
		}
	})
	if wrong != nil {
		return wrong
	}
	comparison := query.CompareJobs(jobs)
	if o.output == "json" {
		return writeJSON(g.stdout, comparison)
	}
	return screen.Print(g.stdout, func(p *table.Page) { terminal.PrintJobComparison(p, comparison) })
}
