package main

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// compareJobs puts jobs beside each other. Flags that judge experiments are refused.
func (o *compareOptions) compareJobs(g *globals, jobs []stats.Job, flags *pflag.FlagSet) error {
	var wrong error
	flags.Visit(func(f *pflag.Flag) {
		local := f.Name != "home" && f.Name != "verbose" && f.Name != "python"
		if local && f.Name != "output" && wrong == nil {
			wrong = fail.Usage(errors.New("--"+f.Name+" is for experiments, and these are jobs"), "swarm compare JOB JOB, with -o json")
		}
	})
	if wrong != nil {
		return wrong
	}
	comparison := stats.CompareJobs(jobs)
	if o.output == "json" {
		return writeJSON(g.stdout, comparison)
	}
	return screen.Print(g.stdout, func(p *table.Page) {
		p.Table(jobComparison(comparison.Jobs))
		for i, note := range comparison.Notes {
			if i == 0 {
				p.Println()
			}
			p.Println(note)
		}
	})
}

func jobComparison(rows []stats.JobRow) *table.Table {
	t := table.New(
		table.Column{Title: "JOB"}, table.Column{Title: "STATE"}, table.Column{Title: "ATTEMPTS", Right: true, Drop: 4},
		table.Column{Title: "OUT OF MEMORY", Right: true, Drop: 2}, table.Column{Title: "BATCH"}, table.Column{Title: "EFFECTIVE", Right: true, Drop: 5},
		table.Column{Title: "GPU PEAK", Right: true, Drop: 1}, table.Column{Title: "HOST PEAK", Right: true, Drop: 6},
		table.Column{Title: "SUCCEEDED IN", Right: true, Drop: 1}, table.Column{Title: "EXIT", Right: true, Drop: 3}, table.Column{Title: "ON", Drop: 7, Max: 24},
	)
	for _, r := range rows {
		t.Add(cellText(r.Job), r.State, strconv.Itoa(r.AttemptCount), strconv.Itoa(r.Shortages), batchText(r.BatchSize, r.Accumulate),
			optionalText(r.EffectiveBatch, strconv.Itoa), optionalText(r.PeakGPUBytes, units.Bytes), optionalText(r.PeakHostBytes, units.Bytes),
			optionalText(r.Seconds, units.Elapsed), optionalText(r.ExitCode, strconv.Itoa), placeText(r.GPUName, r.Device))
	}
	return t
}
