// Package report creates one self-contained HTML file about the runs of a database: which configuration is best, the
// certainty of that verdict, and the data behind it. The file needs no network and no server. Only its charts need
// JavaScript.
//
// It defines the text, the layout and the selection of figures. All numbers come from metrics/stats through
// metrics/query, or are recorded values. It writes to an io.Writer. Only Save writes a file.
package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
	"github.com/sapo-swarm/swarm/metrics/stats/times"
	"github.com/sapo-swarm/swarm/metrics/stats/workers"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Options select the content of a report.
type Options struct {
	query.CompareOptions
	Title  string  // empty: derived from the experiments' names
	Window int     // smoothing window of curves, in rounds; 0: the paper's 100
	Per    string  // initial axis of curves, from stats.Axes; empty: rounds
	Single bool    // show the line of each run initially
	Now    float64 // Unix seconds

	// Alive reports whether a run's coordinator is alive at a time, in Unix seconds.
	Alive   func(store.Snapshot, float64) bool
	Version string // of the program, for the footer
}

// Limits on drawn points keep the file small for any length and number of runs.
const (
	curvePoints = 600 // per experiment's curve against the initial axis
	otherPoints = 200 // per curve against another axis
	nodePoints  = 240 // per node's smoothed rewards
	rawPoints   = 400 // per node's raw rewards
	slots       = 150 // time slots of durations and memory over a run
	drawnRuns   = 16  // with charts of their own; further runs appear in tables and the overlay
	maxEvents   = 400 // listed per run
)

// Report is the content of a report.
type Report struct {
	Title      string
	Made       float64 // Unix seconds
	Version    string
	Window     int
	Per        string
	Single     bool
	Curves     map[string][]stats.ExperimentCurve // by axis
	Comparison stats.Comparison
	Runs       []*Run // by start time
	Changes    []Difference

	groups []stats.Group // one line of the curves per group
}

// Run is one run.
type Run struct {
	Name  string // name of its experiment; in a study the short name
	Label string // name, with seed and run key if the name is ambiguous
	Color int    // color index of its experiment
	Drawn bool   // has charts of its own

	Totals      store.Totals
	Status      stats.Status
	Row         stats.RunRow
	Resources   stats.Resources
	Smooth, Raw stats.Curve
	Parts       []stats.Curve // one per metric of times.Metrics
	Own, Others stats.Curve   // groups trained on
	Split       *Split        // nil: fixed
	Times       times.Rounds
	Evaluations evaluation.Document
	Peers       []store.PeerTotal
	Memory      []store.MemorySample
	Devices     []store.DeviceSample
	Slot        int // seconds per slot of Memory
	Events      []store.Entry
	Workers     []workers.Row // other hosts that took part
}

// Read reads the content of a report. The error is a wrapped store.ErrNotFound if there are no runs, or none with a
// requested name.
func Read(ctx context.Context, reader *store.Reader, o Options) (*Report, error) {
	if o.Window < 1 {
		o.Window = stats.PaperWindow
	}
	o.Tasks, o.Bootstrap, o.Questions = true, true, true
	if o.Alive != nil {
		o.CompareOptions.Alive = func(s store.Snapshot) bool { return o.Alive(s, o.Now) }
	}
	comparison, err := query.Compare(ctx, reader, o.CompareOptions)
	if err != nil {
		return nil, err
	}
	totals, err := o.Runs(ctx, reader)
	if err != nil {
		return nil, err
	}
	if len(totals) == 0 {
		return nil, fmt.Errorf("report: %w", store.ErrNotFound)
	}
	evals, err := reader.NewestEvals(ctx)
	if err != nil {
		return nil, err
	}
	axis, err := stats.AxisOf(o.Per)
	if err != nil {
		return nil, err
	}
	out := &Report{Title: o.Title, Made: o.Now, Version: o.Version, Window: o.Window, Per: axis.Name, Single: o.Single, Comparison: comparison}
	if err := out.readCurves(ctx, reader, totals); err != nil {
		return nil, err
	}
	for i, t := range totals {
		run := &Run{Totals: t, Name: comparison.ShortName(t.Experiment), Drawn: drawn(totals, i)}
		if err := run.read(ctx, reader, o, evals[t.Run.Run]); err != nil {
			return nil, err
		}
		out.Runs = append(out.Runs, run)
	}
	out.name()
	out.Changes = differences(totals)
	return out, nil
}

// readCurves reads the experiments' curves against every axis.
func (r *Report) readCurves(ctx context.Context, reader *store.Reader, totals []store.Totals) error {
	groups := stats.Groups(totals, stats.CompareOptions{Key: query.ConfigKey, Differ: query.Differ()}, false)
	r.groups = groups
	r.Curves = map[string][]stats.ExperimentCurve{}
	for _, axis := range stats.Axes() {
		o := stats.CurveOptions{Window: r.Window, Points: otherPoints, Single: true}
		if axis.Name == r.Per {
			o.Points = curvePoints
		}
		o.Per = axis.Name
		for _, g := range groups {
			c, err := query.ExperimentCurve(ctx, reader, g, "reward", o)
			if err != nil {
				return err
			}
			if c.Experiment = r.Comparison.ShortName(c.Experiment); len(c.X) > 0 {
				r.Curves[axis.Name] = append(r.Curves[axis.Name], c)
			}
		}
	}
	return nil
}

// drawn reports whether a run has charts of its own. All runs do, unless there are more than drawnRuns. Then only the
// newest finished run of each experiment does, or its newest run if none is finished.
func drawn(totals []store.Totals, i int) bool {
	if len(totals) <= drawnRuns {
		return true
	}
	rank := func(t store.Totals) int {
		if t.State == store.RunDone {
			return 1
		}
		return 0
	}
	for k, t := range totals {
		if k != i && t.Experiment == totals[i].Experiment && cmp.Or(rank(t)-rank(totals[i]), k-i) > 0 {
			return false
		}
	}
	return true
}

// name sets the labels and colors of runs, and the report's title.
func (r *Report) name() {
	experiments := []string{}
	runs, seeds := map[string]int{}, map[string]int{}
	seed := func(run *Run) string { return fmt.Sprintf("%s · seed %d", run.Name, run.Totals.Seed) }
	for _, run := range r.Runs {
		runs[run.Totals.Experiment]++
		seeds[seed(run)]++
		if !slices.Contains(experiments, run.Totals.Experiment) {
			experiments = append(experiments, run.Totals.Experiment)
		}
	}
	for _, run := range r.Runs {
		run.Color = slices.Index(experiments, run.Totals.Experiment)
		switch {
		case runs[run.Totals.Experiment] == 1:
			run.Label = run.Name
		case seeds[seed(run)] == 1:
			run.Label = seed(run)
		default:
			run.Label = seed(run) + " · " + run.Totals.Run.Run
		}
	}
	if s := r.Comparison.Study; r.Title == "" && s != nil {
		r.Title = strings.TrimSpace(fmt.Sprintf("Study %s %s", s.Name, s.Model))
	}
	if r.Title == "" && len(experiments) <= 4 {
		r.Title = "Swarm report: " + units.List(experiments, "and")
	}
	if r.Title == "" {
		r.Title = fmt.Sprintf("Swarm report: %d experiments", len(experiments))
	}
}

// Running returns the running runs.
func (r *Report) Running() []*Run {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(run *Run) bool { return run.Status.State != store.RunRunning })
}

// Drawn returns the runs with charts of their own.
func (r *Report) Drawn() []*Run {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(run *Run) bool { return !run.Drawn || run.Totals.NodeRounds == 0 })
}

// Shared returns the runs in which other hosts took part.
func (r *Report) Shared() []*Run {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(run *Run) bool { return len(run.Workers) == 0 })
}

// Few reports whether the tables of every run fit the report.
func (r *Report) Few() bool { return len(r.Drawn()) <= 4 }
