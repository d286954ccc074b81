package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// Bounds of the ended jobs that swarm status lists.
const (
	listedDays = 3
	listedJobs = 20
)

// Overview is the output of swarm status -o json without a name: the newest run's document, and any jobs.
type Overview struct {
	*stats.Status                   // nil: there is no run
	OthersRunning []string          `json:"others_running,omitempty"` // other running runs
	Jobs          []jobstats.JobRow `json:"jobs"`

	after Afterwards // of Status
}

// Look returns the newest run and the jobs of the last days. If there are neither, the error says how to start a
// run.
func Look(ctx context.Context, reader *store.Reader, home layout.Home, advice commandline.Advice) (all Overview, err error) {
	options := job.QueryOptions()
	jobs, err := query.RecentJobs(ctx, reader, options.Now-(listedDays*24*time.Hour).Seconds(), listedJobs, options)
	if err != nil {
		return all, err
	}
	all.Jobs = []jobstats.JobRow{} // never null in JSON
	for _, j := range jobs {
		all.Jobs = append(all.Jobs, j.JobRow)
	}
	status, err := lifecycle.Status(ctx, reader, "")
	switch {
	case err == nil:
		status.EngineHost = lifecycle.EngineHost(home, status)
		all.Status = &status
	case !errors.Is(err, store.ErrNotFound) || len(jobs) == 0:
		return all, lifecycle.NotFound(err, "")
	}
	running, err := lifecycle.Running(ctx, reader, "")
	if err != nil {
		return all, err
	}
	for _, s := range running {
		if s.Run.Run != status.Run {
			all.OthersRunning = append(all.OthersRunning, s.Run.Run)
		}
	}
	if all.Status != nil {
		all.after, err = After(ctx, home, reader, status, advice)
	}
	return all, err
}

// Print prints the overview.
func (all Overview) Print(p *table.Page) {
	if all.Status != nil {
		terminal.PrintStatus(p, *all.Status)
		all.after.Print(p)
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

// othersNamed bounds the number of other running runs that are named.
const othersNamed = 3

// othersText returns a text that names the other running runs, or "".
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
