// Package report makes one self-contained HTML file about the runs of a database: which configuration is best, how
// certain that is, and the data behind it. The file needs no network, no server and, but for its charts, no JavaScript.
//
// It owns the words, the layout and which figures are drawn. Every number comes from metrics/stats by way of
// metrics/query, or is a recorded one as it is. It writes to the io.Writer that it is given; Save alone writes a file.
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
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Options choose what a report is about.
type Options struct {
	query.CompareOptions
	Title  string  // empty: made of the experiments' names
	Window int     // of smoothed curves, in rounds; 0: the paper's 100
	Per    string  // the axis of stats.Axes that curves are shown against at first; empty: rounds
	Single bool    // each run's line is shown at first
	Now    float64 // Unix seconds

	// Alive tells whether a run's coordinator still lives, at a time.
	Alive   func(store.Snapshot, float64) bool
	Version string // of the program, for the footer
}

// Bounds on what is drawn, so that the file stays small however long and many the runs are.
const (
	curvePoints = 600 // of an experiment's curve against the axis that is shown at first
	otherPoints = 200 // against the others
	nodePoints  = 240 // of one node's smoothed rewards
	rawPoints   = 400 // of one node's raw rewards
	slots       = 150 // of times and memory over a run
	drawnRuns   = 16  // with charts of their own; more are in tables and the overlay
	maxEvents   = 400 // listed, of one run
)

// Report is everything that is shown.
type Report struct {
	Title      string
	Made       float64 // Unix seconds
	Version    string
	Window     int
	Per        string
	Single     bool
	Curves     map[string][]stats.ExperimentCurve // by axis
	Comparison stats.Comparison
	Runs       []*Run // by start
	Changes    []Difference

	groups []stats.Group // lines of curves
}

// Run is one run.
type Run struct {
	Name  string // its experiment's, of a study the short one
	Label string // its name, with seed and run where that is not enough
	Color int    // of its experiment
	Drawn bool   // has charts of its own

	Totals      store.Totals
	Status      stats.Status
	Row         stats.RunRow
	Resources   stats.Resources
	Smooth, Raw stats.Curve
	Parts       []stats.Curve // of stats.TimeMetrics
	Own, Others stats.Curve   // groups trained on
	Split       *Split        // nil: fixed
	Times       stats.RoundTimes
	Evaluations stats.Evaluations
	Peers       []store.PeerTotal
	Memory      []store.MemorySample
	Devices     []store.DeviceSample
	Slot        int // seconds of a slot of Memory
	Events      []store.Entry
	Workers     []stats.WorkerRow // other hosts that took part
}

// Read reads what a report shows. The error is store.ErrNotFound, wrapped, where there is nothing: no run at all, or
// none of a name.
func Read(ctx context.Context, reader *store.Reader, o Options) (*Report, error) {
	if o.Window < 1 {
		o.Window = stats.PaperWindow
	}
	o.Tasks = true
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

// drawn says whether a run has charts of its own: all do, unless they are many; then an experiment's newest that is
// done, or else its newest.
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

// name gives runs their labels and colors, and the report its title.
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

// Running are the runs that go on.
func (r *Report) Running() []*Run {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(run *Run) bool { return run.Status.State != store.RunRunning })
}

// Drawn are the runs with charts of their own.
func (r *Report) Drawn() []*Run {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(run *Run) bool { return !run.Drawn || run.Totals.NodeRounds == 0 })
}

// Shared are the runs in which other hosts took part.
func (r *Report) Shared() []*Run {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(run *Run) bool { return len(run.Workers) == 0 })
}

// Few says that there is room to show every run's tables.
func (r *Report) Few() bool { return len(r.Drawn()) <= 4 }
