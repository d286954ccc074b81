package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// listedMost is how many runs swarm ls shows people unasked.
const listedMost = 20

type lsOptions struct {
	states []string
	limit  int
	all    bool
	output string
}

// lsDocument is `swarm ls -o json`.
type lsDocument struct {
	Runs  []lifecycle.Listed `json:"runs"`
	Total int                `json:"total"` // runs of these names and states, of which runs has the newest
	Jobs  []stats.JobRow     `json:"jobs,omitempty"`
}

func newLsCommand(g *globals) *cobra.Command {
	var o lsOptions
	cmd := &cobra.Command{
		Use:     "ls [EXPERIMENT or RUN...]",
		Aliases: []string{"list"},
		Short:   "List runs: state, rounds, nodes, age, size on disk",
		Long: "ls lists the recorded runs, the newest first, and below them the jobs of swarm run. AGE is the time since a run ended or was last seen.\n" +
			"SIZE is what its folder takes: checkpoints, journals, logs. A run that was imported has no folder. Without --all or --limit it shows\n" +
			"the newest 20. With -o json it lists all of them.",
		Example: `  swarm ls
  swarm ls 4loc4ext --state crashed,stopped
  swarm ls --all -o json | jq -r '.runs[] | select(.size_bytes > 1e9) | .run'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.all = o.all || o.output == "json" && !cmd.Flags().Changed("limit")
			return runLs(cmd.Context(), g, args, &o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.states, "state", nil, "only runs in these `states`: "+strings.Join(lifecycle.States, ", "))
	f.IntVarP(&o.limit, "limit", "n", listedMost, "show the newest `N`")
	f.BoolVarP(&o.all, "all", "a", false, "show all")
	cmd.MarkFlagsMutuallyExclusive("limit", "all")
	addOutputFlag(f, &o.output)
	return cmd
}

func runLs(ctx context.Context, g *globals, names []string, o *lsOptions) error {
	if err := errors.Join(checkOutput(o.output), lifecycle.CheckStates(o.states)); err != nil {
		return err
	}
	if o.limit < 1 {
		return &configs.Error{Key: "limit", Value: fmt.Sprint(o.limit), Allowed: "1 or more", Source: "--limit"}
	}
	reader, err := store.OpenReader(ctx, g.home.Database())
	if errors.Is(err, store.ErrNoDatabase) && len(names) == 0 {
		return lsDocument{Runs: []lifecycle.Listed{}}.show(g, o)
	}
	if err != nil {
		return err
	}
	defer reader.Close()
	jobs, jobNames, err := listJobs(ctx, reader, names, o)
	if err != nil {
		return err
	}
	var runs []lifecycle.Listed
	if runNames := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return jobNames[n] }); len(names) == 0 || len(runNames) > 0 {
		if runs, err = lifecycle.List(ctx, reader, runNames, o.states); err != nil {
			return err
		}
	}
	d := lsDocument{Runs: runs, Total: len(runs), Jobs: jobs}
	if !o.all {
		d.Runs = d.Runs[:min(o.limit, len(d.Runs))]
	}
	if err := lifecycle.Measure(g.home, d.Runs); err != nil {
		return err
	}
	return d.show(g, o)
}

// listJobs are the jobs of those names, the newest first, and which of the names are jobs' alone. Where runs' states are asked for there are none.
func listJobs(ctx context.Context, reader *store.Reader, names []string, o *lsOptions) (rows []stats.JobRow, only map[string]bool, err error) {
	only = map[string]bool{}
	for _, name := range names {
		_, ok, err := job.Named(ctx, reader, name)
		if err != nil {
			return nil, nil, err
		}
		only[name] = ok
	}
	if len(o.states) > 0 {
		return nil, only, nil
	}
	filter := store.JobFilter{Limit: o.limit}
	if o.all {
		filter.Limit = 0
	}
	if len(names) > 0 {
		if filter.Names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !only[n] }); len(filter.Names) == 0 {
			return nil, only, nil
		}
	}
	jobs, err := reader.Jobs(ctx, filter)
	for _, j := range jobs {
		rows = append(rows, job.Describe(j).JobRow)
	}
	return rows, only, err
}

func (d lsDocument) show(g *globals, o *lsOptions) error {
	if o.output == "json" {
		d.Runs = append([]lifecycle.Listed{}, d.Runs...)
		return writeJSON(g.stdout, d)
	}
	p := screen.Page(g.stdout)
	switch {
	case len(d.Runs) > 0:
		p.Table(runsTable(d.Runs))
	case len(d.Jobs) > 0:
	case len(o.states) > 0:
		p.Printf("No run is %s.\n", strings.Join(o.states, " or "))
	default:
		p.Printf("No run is recorded under %s yet.\n", g.home)
	}
	if len(d.Runs) < d.Total {
		p.Printf("%d of %s; --all shows all.\n", len(d.Runs), units.Plural(d.Total, "run"))
	}
	if len(d.Runs) > 0 && len(d.Jobs) > 0 {
		p.Println()
	}
	if len(d.Jobs) > 0 {
		p.Table(terminal.JobTable(d.Jobs))
	}
	return p.Flush()
}

// runsTable has a row a run.
func runsTable(runs []lifecycle.Listed) *table.Table {
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
		return "?" // too much to look through, or it can't be read
	case r.Imported:
		return "imported"
	case lifecycle.Elsewhere(r.Record.Run):
		return "on " + charset.Shown(r.Record.Host)
	}
	return "no files"
}
