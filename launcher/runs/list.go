package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/jobstats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// ListOptions select what swarm ls lists.
type ListOptions struct {
	Names  []string // of runs, experiments or jobs; empty: all
	States []string // of runs; empty: any
	Limit  int      // maximum number of runs, and of jobs, newest first
	All    bool     // ignore Limit
}

// Listing is the output of `swarm ls -o json`.
type Listing struct {
	Runs  []lifecycle.Listed `json:"runs"`
	Total int                `json:"total"` // number of matching runs; Runs has the newest of them
	Jobs  []jobstats.JobRow  `json:"jobs"`
}

// Check rejects a limit below 1.
func (o *ListOptions) Check() error {
	if o.Limit < 1 {
		return &configs.Error{Key: "limit", Value: fmt.Sprint(o.Limit), Allowed: "1 or more", Source: "--limit"}
	}
	return nil
}

// List returns the runs and jobs of a home.
func List(ctx context.Context, home layout.Home, o ListOptions) (Listing, error) {
	reader, err := store.OpenReader(ctx, home.Database())
	if errors.Is(err, store.ErrNoDatabase) && len(o.Names) == 0 {
		return Listing{Runs: []lifecycle.Listed{}, Jobs: []jobstats.JobRow{}}, nil
	}
	if err != nil {
		return Listing{}, err
	}
	defer reader.Close()
	jobs, jobNames, err := listJobs(ctx, reader, &o)
	if err != nil {
		return Listing{}, err
	}
	var runs []lifecycle.Listed
	if runNames := slices.DeleteFunc(slices.Clone(o.Names), func(n string) bool { return jobNames[n] }); len(o.Names) == 0 || len(runNames) > 0 {
		if runs, err = lifecycle.List(ctx, reader, runNames, o.States); err != nil {
			return Listing{}, err
		}
	}
	d := Listing{Runs: append([]lifecycle.Listed{}, runs...), Total: len(runs), Jobs: append([]jobstats.JobRow{}, jobs...)}
	if !o.All {
		d.Runs = d.Runs[:min(o.Limit, len(d.Runs))]
	}
	return d, lifecycle.Measure(home, d.Runs)
}

// listJobs returns the jobs with these names, newest first, and which of the names are jobs. It returns no jobs if
// the user filters by runs' states.
func listJobs(ctx context.Context, reader *store.Reader, o *ListOptions) (rows []jobstats.JobRow, only map[string]bool, err error) {
	only = map[string]bool{}
	for _, name := range o.Names {
		_, ok, err := job.Named(ctx, reader, name)
		if err != nil {
			return nil, nil, err
		}
		only[name] = ok
	}
	if len(o.States) > 0 {
		return nil, only, nil
	}
	filter := store.JobFilter{Limit: o.Limit}
	if o.All {
		filter.Limit = 0
	}
	if len(o.Names) > 0 {
		if filter.Names = slices.DeleteFunc(slices.Clone(o.Names), func(n string) bool { return !only[n] }); len(filter.Names) == 0 {
			return nil, only, nil
		}
	}
	jobs, err := reader.Jobs(ctx, filter)
	for _, j := range jobs {
		rows = append(rows, job.Describe(j).JobRow)
	}
	return rows, only, err
}

// Print prints the listing. home and states are the user's selection.
func (d Listing) Print(p *table.Page, home layout.Home, states []string) {
	switch {
	case len(d.Runs) > 0:
		p.Table(Table(d.Runs))
	case len(d.Jobs) > 0:
	case len(states) > 0:
		p.Printf("No run is %s.\n", strings.Join(states, " or "))
	default:
		p.Printf("No run is recorded under %s yet.\n", home)
	}
	if len(d.Runs) < d.Total {
		p.Printf("%d of %s. --all shows all.\n", len(d.Runs), units.Plural(d.Total, "run"))
	}
	if len(d.Runs) > 0 && len(d.Jobs) > 0 {
		p.Println()
	}
	if len(d.Jobs) > 0 {
		p.Table(terminal.JobTable(d.Jobs))
	}
}

// Table returns a table with a row per run.
func Table(runs []lifecycle.Listed) *table.Table {
	t := table.New(
		table.Column{Title: "RUN"}, table.Column{Title: "EXPERIMENT", Drop: 3, Max: 24}, table.Column{Title: "STATE"}, table.Column{Title: "ROUNDS", Right: true},
		table.Column{Title: "NODES", Right: true, Drop: 2}, table.Column{Title: "AGE", Right: true, Drop: 1}, table.Column{Title: "SIZE", Right: true},
	)
	for _, r := range runs {
		t.Add(charset.Shown(r.Run), charset.Shown(r.Experiment), charset.Shown(r.State), fmt.Sprintf("%d/%d", r.Round, r.Rounds), strconv.Itoa(r.Nodes), ageOf(r), folderSize(r))
	}
	return t
}

func ageOf(r lifecycle.Listed) string {
	if r.State == store.RunRunning {
		return "now"
	}
	return units.Age(units.Seconds(event.Now() - r.LastSeen))
}

func folderSize(r lifecycle.Listed) string {
	switch {
	case r.SizeBytes != nil:
		return units.Bytes(*r.SizeBytes)
	case r.Folder != nil:
		return "?" // too large to measure, or unreadable
	case r.Imported:
		return "imported"
	case lifecycle.Elsewhere(r.Record.Run):
		return "on " + charset.Shown(r.Record.Host)
	}
	return "no files"
}
