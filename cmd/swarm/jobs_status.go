package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// Of the jobs that have ended, swarm status lists those of the last days, and so many.
const (
	listedDays = 3
	listedJobs = 20
)

// overview is what swarm status without a name prints as JSON: the newest run's document, and jobs where there are any.
type overview struct {
	*stats.Status                // nil: there is no run
	OthersRunning []string       `json:"others_running,omitempty"` // runs that go on beside it
	Jobs          []stats.JobRow `json:"jobs,omitempty"`

	after afterwards // of Status
}

// showOverview shows the newest run and the jobs of the last days; without either it says what there could be.
func showOverview(ctx context.Context, g *globals, reader *store.Reader, o *statusOptions) error {
	options := job.QueryOptions()
	jobs, err := query.RecentJobs(ctx, reader, options.Now-(listedDays*24*time.Hour).Seconds(), listedJobs, options)
	if err != nil {
		return err
	}
	var all overview
	for _, j := range jobs {
		all.Jobs = append(all.Jobs, j.JobRow)
	}
	status, err := lifecycle.Status(ctx, reader, "")
	switch {
	case err == nil:
		all.Status = &status
	case !errors.Is(err, store.ErrNotFound) || len(jobs) == 0:
		return lifecycle.NotFound(err, "")
	}
	running, err := lifecycle.Running(ctx, reader, "")
	if err != nil {
		return err
	}
	for _, s := range running {
		if s.Run.Run != status.Run {
			all.OthersRunning = append(all.OthersRunning, s.Run.Run)
		}
	}
	if o.output == "json" {
		return writeJSON(g.stdout, all)
	}
	if all.Status != nil {
		if all.after, err = g.afterwards(ctx, reader, status); err != nil {
			return err
		}
	}
	return screen.Print(g.stdout, func(p *table.Page) { printOverview(p, all) })
}

func printOverview(p *table.Page, all overview) {
	if all.Status != nil {
		terminal.PrintStatus(p, *all.Status)
		all.after.print(p)
		if text := othersText(all.OthersRunning); text != "" {
			p.Printf("\n%s\n", text)
		}
		if len(all.Jobs) > 0 {
			p.Println()
		}
	}
	if len(all.Jobs) > 0 {
		p.Table(terminal.JobTable(all.Jobs))
	}
}

// othersNamed is how many of the other runs that go on are named.
const othersNamed = 3

// othersText says which other runs go on; nothing where none does.
func othersText(runs []string) string {
	if len(runs) == 0 {
		return ""
	}
	names := strings.Join(runs[:min(othersNamed, len(runs))], ", ")
	if more := len(runs) - othersNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return charset.Shown(fmt.Sprintf("%s %s running, too: %s. swarm ls lists all runs.", units.Plural(len(runs), "other run"), units.Verb(len(runs), "be"), names))
}

// showJob shows one job and each of its attempts.
func showJob(g *globals, j store.Job, o *statusOptions) error {
	if o.watch {
		return fail.Usage(fmt.Errorf("--watch shows runs of swarm up, and %s is a job", j.Job), "swarm logs "+j.Job+" -f")
	}
	job := job.Describe(j)
	if o.output == "json" {
		return writeJSON(g.stdout, job)
	}
	return screen.Print(g.stdout, func(p *table.Page) { terminal.PrintJob(p, job) })
}
