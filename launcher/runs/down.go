package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// DownLimit is the default time for a run to stop cleanly, slightly more than a spot VM's notice.
const DownLimit = 30 * time.Second

// DownOptions select what to stop, and how.
type DownOptions struct {
	Home   layout.Home
	Stderr io.Writer // for progress
	GoesOn func(run string, c *stats.Command) string

	Name  string // of a run, an experiment or a job; empty: the one running run
	All   bool   // every run of this host
	Now   bool   // do not wait for steps and checkpoints
	Limit time.Duration
}

// Check rejects invalid options.
func (o *DownOptions) Check() error {
	if o.Limit < time.Second || o.Limit > time.Hour {
		return &configs.Error{Key: "timeout", Value: o.Limit.String(), Allowed: "a time from 1s to 1h"}
	}
	if o.All && o.Name != "" {
		return fail.Usage(fmt.Errorf("--all and %s exclude each other", o.Name), "one of them")
	}
	return nil
}

// Outcomes of a down.
const (
	OutcomeStopped = "stopped"     // it ended by itself
	OutcomeKilled  = "killed"      // it had to be killed
	OutcomeLeft    = "running"     // it could not be stopped
	OutcomeIdle    = "not_running" // there was nothing to stop
)

// Stopped is the output of swarm down -o json.
type Stopped struct {
	Runs []StoppedRun `json:"runs"`
	Jobs []job.Ended  `json:"jobs,omitempty"`
}

// StoppedRun is the result for one run.
type StoppedRun struct {
	Experiment      string  `json:"experiment"`
	Run             string  `json:"run"`
	PID             int     `json:"pid"`
	Outcome         string  `json:"outcome"`
	State           string  `json:"state"` // state of the run afterwards
	Round           int     `json:"round"` // rounds done by every node
	Rounds          int     `json:"rounds"`
	CheckpointRound int     `json:"checkpoint_round"` // rounds in every node's newest checkpoint on disk
	Seconds         float64 `json:"seconds"`          // duration of the stop
	Orphans         int     `json:"orphans"`          // leftover processes that were ended

	service  string // systemd service that will start it again
	goesOn   string // the command that continues it
	imported bool
	removed  bool // its files were removed, so that it cannot continue
}

// Down stops runs, or a job. It may return a result together with an error. Callers must show both.
func Down(ctx context.Context, o DownOptions) (*Stopped, error) {
	reader, err := store.OpenReader(ctx, o.Home.Database())
	if errors.Is(err, store.ErrNoDatabase) && o.Name == "" {
		return &Stopped{Runs: []StoppedRun{}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	found, ok, err := job.Named(ctx, reader, o.Name)
	if err != nil {
		return nil, err
	}
	if ok {
		return downJob(ctx, reader, found, &o)
	}
	targets, idle, err := downTargets(ctx, reader, o.Name, o.All)
	if err != nil {
		return nil, err
	}
	results := []StoppedRun{}
	if idle != nil {
		result, err := clean(ctx, reader, idle.Run, &o)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	stopped, err := downAll(ctx, reader, targets, &o)
	return &Stopped{Runs: append(results, stopped...)}, err
}

// downJob stops a job.
func downJob(ctx context.Context, reader *store.Reader, j store.Job, o *DownOptions) (*Stopped, error) {
	if o.All {
		return nil, fail.Usage(fmt.Errorf("--all and %s exclude each other", j.Job), "one of them")
	}
	done, err := job.End(ctx, reader, j, job.EndOptions{Home: o.Home, Limit: o.Limit, Now: o.Now})
	if done == nil {
		return nil, err
	}
	return &Stopped{Runs: []StoppedRun{}, Jobs: []job.Ended{*done}}, err
}

// downTargets returns the runs to stop. idle is the named run if it is not running.
func downTargets(ctx context.Context, reader *store.Reader, name string, all bool) (targets []store.Snapshot, idle *store.Snapshot, err error) {
	running, err := lifecycle.Running(ctx, reader, name)
	if err != nil {
		return nil, nil, err
	}
	if len(running) == 0 && name != "" {
		snapshot, err := reader.Snapshot(ctx, name)
		return nil, &snapshot, lifecycle.NotFound(err, name)
	}
	if len(running) > 1 && !all {
		if _, err := lifecycle.Choose(ctx, reader, name, "down"); err != nil {
			return nil, nil, err
		}
	}
	for _, s := range running {
		switch {
		case !lifecycle.Elsewhere(s.Run):
			targets = append(targets, s)
		case !all:
			return nil, nil, fail.Hint(
				fmt.Errorf("%s runs on %s, whose processes cannot be stopped from this host", s.Run.Run, s.Run.Host),
				"swarm down "+s.Run.Run+" there")

		}
	}
	return targets, nil, nil
}

// downAll stops all targets concurrently.
func downAll(ctx context.Context, reader *store.Reader, targets []store.Snapshot, o *DownOptions) ([]StoppedRun, error) {
	progress := screen.NewStatusLine(o.Stderr, 5*time.Second)
	stops := make([]*lifecycle.Stop, len(targets))
	for i, s := range targets {
		stops[i] = lifecycle.NewStop(o.Home, s.Run, o.Now)
	}
	failures := lifecycle.Await(ctx, stops, o.Limit, func(waited time.Duration, left []*lifecycle.Stop) {
		var names []string
		for _, s := range left {
			names = append(names, s.Describe(ctx, reader))
		}
		progress.Say(fmt.Sprintf("Stopping for %.0f s: %s.", waited.Seconds(), strings.Join(names, "; ")))
	})
	progress.End()
	var results []StoppedRun
	for _, s := range stops {
		result, err := downResult(ctx, reader, s, o)
		results = append(results, result)
		failures = append(failures, err)
	}
	return results, errors.Join(failures...)
}

// downResult returns how a run ended. The error reports a run that had to be killed without --now.
func downResult(ctx context.Context, reader *store.Reader, s *lifecycle.Stop, o *DownOptions) (StoppedRun, error) {
	d := StoppedRun{
		Experiment: s.Run.Experiment, Run: s.Run.Run, PID: s.Run.PID, Outcome: OutcomeStopped, Seconds: s.Took.Seconds(), Orphans: s.Orphans,
	}
	err := d.read(ctx, reader, o)
	if !s.Ended {
		d.Outcome = OutcomeLeft
		return d, err
	}
	if s.Killed {
		d.Outcome, d.service = OutcomeKilled, s.Service
		if !s.Now {
			err = errors.Join(err, fail.Hint(
				fmt.Errorf("%s did not stop cleanly", s.Run.Run), "swarm logs "+s.Run.Run+" "+runlog.Coordinator+" for why"))
		}
	}
	return d, err
}

// clean ends leftover processes of a run that is not running.
func clean(ctx context.Context, reader *store.Reader, run store.Run, o *DownOptions) (StoppedRun, error) {
	result := StoppedRun{Experiment: run.Experiment, Run: run.Run, Outcome: OutcomeIdle, imported: run.Imported()}
	var err error
	if !lifecycle.Elsewhere(run) {
		result.Orphans, err = lifecycle.SweepRun(ctx, o.Home.Run(run.Run))
	}
	return result, errors.Join(err, result.read(ctx, reader, o))
}

// read fills in the run's state from the database.
func (d *StoppedRun) read(ctx context.Context, reader *store.Reader, o *DownOptions) error {
	snapshot, err := reader.Snapshot(ctx, d.Run)
	if err != nil {
		return err
	}
	now := event.Now()
	status := query.Status(snapshot, now, lifecycle.Alive(snapshot, now))
	d.State, d.Round, d.Rounds = status.State, status.Round, status.Rounds
	if d.removed = !d.imported && o.Home.LacksRun(d.Run); !d.imported && !d.removed {
		d.goesOn = o.GoesOn(d.Run, status.Command)
	}
	for i, n := range snapshot.Nodes {
		rounds := 0
		checkpoint, err := reader.Checkpoint(ctx, d.Run, n.Node)
		if err != nil {
			return err
		}
		if checkpoint != nil {
			rounds = checkpoint.Round
		}
		if i == 0 || rounds < d.CheckpointRound {
			d.CheckpointRound = rounds
		}
	}
	return nil
}

// Write prints the results.
func (s *Stopped) Write(w io.Writer, home layout.Home) error {
	var b strings.Builder
	for _, r := range s.Runs {
		r.print(&b)
	}
	for _, j := range s.Jobs {
		switch j.Outcome {
		case OutcomeIdle:
			fmt.Fprintf(&b, "%s does not run: %s.\n", j.Job, j.State)
		case OutcomeStopped:
			fmt.Fprintf(&b, "%s ended after %.1f s: %s.\n", j.Job, j.Seconds, j.State)
		}
	}
	if len(s.Runs) == 0 && len(s.Jobs) == 0 {
		fmt.Fprintf(&b, "Nothing runs under %s.\n", home)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (d StoppedRun) print(b *strings.Builder) {
	switch d.Outcome {
	case OutcomeIdle:
		fmt.Fprintf(b, "%s does not run: %s, round %d of %d.\n", d.Run, d.State, d.Round, d.Rounds)
	case OutcomeLeft:
		fmt.Fprintf(b, "%s still runs, at round %d of %d.\n", d.Run, d.Round, d.Rounds)
		return
	case OutcomeKilled:
		fmt.Fprintf(b, "%s did not stop in time and was killed after %.1f s, at round %d of %d.\n", d.Run, d.Seconds, d.Round, d.Rounds)
	default:
		fmt.Fprintf(b, "%s ended after %.1f s: %s, round %d of %d.\n", d.Run, d.Seconds, d.State, d.Round, d.Rounds)
	}
	if d.Orphans > 0 {
		fmt.Fprintf(b, "Ended %s that it had left running.\n", units.Plural(d.Orphans, "process"))
	}
	switch {
	case d.State == store.RunDone || d.imported:
	case d.removed:
		b.WriteString(filesRemoved + "swarm up --fresh\n")
	case d.CheckpointRound == 0:
		fmt.Fprintf(b, "Not every node has a checkpoint yet: the run continues from the journals, at round %d.\n", d.Round)
	default:
		fmt.Fprintf(b, "Every node has a checkpoint of round %d: the run continues at round %d.\n", d.CheckpointRound, d.Round)
	}
	if d.State != store.RunDone && d.goesOn != "" {
		fmt.Fprintf(b, "Continue with: %s\n", charset.Shown(d.goesOn))
	}
	if d.service != "" {
		fmt.Fprintf(b, "The service %s may start it again. To prevent this: swarm service remove, or systemctl stop %s.\n", d.service, d.service)
	}
}
