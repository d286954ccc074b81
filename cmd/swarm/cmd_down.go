package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/job"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// downLimit is what a run gets to stop in order: a spot VM's notice, and some.
const downLimit = 30 * time.Second

type downOptions struct {
	now    bool
	all    bool
	limit  time.Duration
	output string
}

func newDownCommand(g *globals) *cobra.Command {
	var o downOptions
	cmd := &cobra.Command{
		Use:   "down [EXPERIMENT, RUN or JOB]",
		Short: "Stop a run in order, after a checkpoint, or a job of swarm run",
		Long: "down stops the coordinator of a run, which has its nodes finish their step and checkpoint, and waits until it has ended; then the\n" +
			"same swarm up goes on with it. A coordinator that has not ended in time is killed, and what it leaves is ended too. Without a name\n" +
			"it stops the one run that goes on; where nothing runs there is nothing to do, which is no error. A job of swarm run is stopped by its\n" +
			"name only: its command gets SIGTERM.",
		Example: `  swarm down
  swarm down 4loc4ext --now
  swarm down --all`,
		Args: usage.AtMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDown(cmd.Context(), g, nameIn(args), &o)
		},
	}
	cmd.Flags().BoolVar(&o.now, "now", false, "don't wait for steps and checkpoints: rounds since the last one come back from the journals")
	cmd.Flags().BoolVar(&o.all, "all", false, "stop every run of this host")
	cmd.Flags().DurationVar(&o.limit, "timeout", downLimit, "`time` to stop in before it is killed, 1s to 1h")
	addOutputFlag(cmd.Flags(), &o.output)
	return cmd
}

// Outcomes of a down.
const (
	outcomeStopped = "stopped"     // it has ended by itself
	outcomeKilled  = "killed"      // it had to be killed
	outcomeLeft    = "running"     // it could not be stopped
	outcomeIdle    = "not_running" // there was nothing to stop
)

// downDocument is what swarm down -o json prints.
type downDocument struct {
	Runs []downRun   `json:"runs"`
	Jobs []job.Ended `json:"jobs,omitempty"`
}

type downRun struct {
	Experiment      string  `json:"experiment"`
	Run             string  `json:"run"`
	PID             int     `json:"pid"`
	Outcome         string  `json:"outcome"`
	State           string  `json:"state"` // of the run, afterwards
	Round           int     `json:"round"` // done by every node
	Rounds          int     `json:"rounds"`
	CheckpointRound int     `json:"checkpoint_round"` // rounds that every node has on disk
	Seconds         float64 `json:"seconds"`          // that stopping took
	Orphans         int     `json:"orphans"`          // processes it left, ended too

	service  string // that will start it again
	goesOn   string // the command that continues it
	imported bool
}

func runDown(ctx context.Context, g *globals, name string, o *downOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if o.limit < time.Second || o.limit > time.Hour {
		return &configs.Error{Key: "timeout", Value: o.limit.String(), Allowed: "a time from 1s to 1h"}
	}
	if o.all && name != "" {
		return fail.Usage(fmt.Errorf("--all and %s at once", name), "one of them")
	}
	reader, err := store.OpenReader(ctx, g.home.Database())
	if errors.Is(err, store.ErrNoDatabase) && name == "" {
		return tellDown(g, o, nil)
	}
	if err != nil {
		return err
	}
	defer reader.Close()
	found, ok, err := job.Named(ctx, reader, name)
	if err != nil {
		return err
	}
	if ok {
		return downJob(ctx, g, reader, found, o)
	}
	targets, idle, err := downTargets(ctx, reader, name, o.all)
	if err != nil {
		return err
	}
	results := []downRun{}
	if idle != nil {
		result, err := clean(ctx, g, reader, idle.Run)
		if err != nil {
			return err
		}
		results = append(results, result)
	}
	stopped, err := downAll(ctx, g, reader, targets, o)
	return errors.Join(tellDown(g, o, append(results, stopped...)), err)
}

// downTargets are the runs to stop. idle is the one that was named and does not run.
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
				fmt.Errorf("%s runs on %s, whose processes can't be stopped from here", s.Run.Run, s.Run.Host),
				"swarm down "+s.Run.Run+" there")

		}
	}
	return targets, nil, nil
}

// downAll stops all targets side by side.
func downAll(ctx context.Context, g *globals, reader *store.Reader, targets []store.Snapshot, o *downOptions) ([]downRun, error) {
	progress := screen.NewStatusLine(g.stderr, 5*time.Second)
	stops := make([]*lifecycle.Stop, len(targets))
	for i, s := range targets {
		stops[i] = lifecycle.NewStop(g.home, s.Run, o.now)
	}
	failures := lifecycle.Await(ctx, stops, o.limit, func(waited time.Duration, left []*lifecycle.Stop) {
		var names []string
		for _, s := range left {
			names = append(names, s.Describe(ctx, reader))
		}
		progress.Say(fmt.Sprintf("Stopping for %.0f s: %s.", waited.Seconds(), strings.Join(names, "; ")))
	})
	progress.End()
	var results []downRun
	for _, s := range stops {
		result, err := downResult(ctx, g, reader, s)
		results = append(results, result)
		failures = append(failures, err)
	}
	return results, errors.Join(failures...)
}

// downResult is how it ended. The error is that it had to be killed though nobody asked for that.
func downResult(ctx context.Context, g *globals, reader *store.Reader, s *lifecycle.Stop) (downRun, error) {
	d := downRun{
		Experiment: s.Run.Experiment, Run: s.Run.Run, PID: s.Run.PID, Outcome: outcomeStopped, Seconds: s.Took.Seconds(), Orphans: s.Orphans,
	}
	err := d.read(ctx, g, reader)
	if !s.Ended {
		d.Outcome = outcomeLeft
		return d, err
	}
	if s.Killed {
		d.Outcome, d.service = outcomeKilled, s.Service
		if !s.Now {
			err = errors.Join(err, fail.Hint(
				fmt.Errorf("%s did not stop in order", s.Run.Run), "swarm logs "+s.Run.Run+" "+runlog.Coordinator+" for why"))
		}
	}
	return d, err
}

// clean ends what a run that isn't running has left behind, should anything be.
func clean(ctx context.Context, g *globals, reader *store.Reader, run store.Run) (downRun, error) {
	result := downRun{Experiment: run.Experiment, Run: run.Run, Outcome: outcomeIdle, imported: run.Imported()}
	var err error
	if !lifecycle.Elsewhere(run) {
		result.Orphans, err = lifecycle.SweepRun(ctx, g.home.Run(run.Run))
	}
	return result, errors.Join(err, result.read(ctx, g, reader))
}

// read fills in what the database knows of the run.
func (d *downRun) read(ctx context.Context, g *globals, reader *store.Reader) error {
	snapshot, err := reader.Snapshot(ctx, d.Run)
	if err != nil {
		return err
	}
	now := event.Now()
	status := stats.NewStatus(snapshot, now, lifecycle.Alive(snapshot, now))
	d.State, d.Round, d.Rounds = status.State, status.Round, status.Rounds
	if !d.imported {
		d.goesOn = g.advice().GoesOn(d.Run, status.Command)
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

func tellDown(g *globals, o *downOptions, results []downRun) error {
	if o.output == "json" {
		return writeJSON(g.stdout, downDocument{Runs: append([]downRun{}, results...)})
	}
	var b strings.Builder
	for _, r := range results {
		r.print(&b)
	}
	if len(results) == 0 {
		fmt.Fprintf(&b, "Nothing runs under %s.\n", g.home)
	}
	_, err := io.WriteString(g.stdout, b.String())
	return err
}

func (d downRun) print(b *strings.Builder) {
	switch d.Outcome {
	case outcomeIdle:
		fmt.Fprintf(b, "%s does not run: %s, round %d of %d.\n", d.Run, d.State, d.Round, d.Rounds)
	case outcomeLeft:
		fmt.Fprintf(b, "%s still runs, at round %d of %d.\n", d.Run, d.Round, d.Rounds)
		return
	case outcomeKilled:
		fmt.Fprintf(b, "%s did not stop by itself and was killed after %.1f s, at round %d of %d.\n", d.Run, d.Seconds, d.Round, d.Rounds)
	default:
		fmt.Fprintf(b, "%s ended after %.1f s: %s, round %d of %d.\n", d.Run, d.Seconds, d.State, d.Round, d.Rounds)
	}
	if d.Orphans > 0 {
		fmt.Fprintf(b, "Ended %s that it left behind.\n", units.Plural(d.Orphans, "process"))
	}
	switch {
	case d.State == store.RunDone || d.imported:
	case d.CheckpointRound == 0:
		fmt.Fprintf(b, "Not every node has a checkpoint yet: the run goes on from the journals, at round %d.\n", d.Round)
	default:
		fmt.Fprintf(b, "Every node has a checkpoint of round %d: the run goes on at round %d.\n", d.CheckpointRound, d.Round)
	}
	if d.State != store.RunDone && d.goesOn != "" {
		fmt.Fprintf(b, "Continue with: %s\n", charset.Shown(d.goesOn))
	}
	if d.service != "" {
		fmt.Fprintf(b, "%s is a service that may start it again: swarm service remove, or systemctl stop %s.\n", d.service, d.service)
	}
}

// downJob ends a job.
func downJob(ctx context.Context, g *globals, reader *store.Reader, j store.Job, o *downOptions) error {
	if o.all {
		return fail.Usage(fmt.Errorf("--all and %s at once", j.Job), "one of them")
	}
	done, err := job.End(ctx, reader, j, job.EndOptions{Home: g.home, Limit: o.limit, Now: o.now})
	if done == nil {
		return err
	}
	return errors.Join(tellJobDown(g, o, *done), err)
}

func tellJobDown(g *globals, o *downOptions, r job.Ended) error {
	if o.output == "json" {
		return writeJSON(g.stdout, downDocument{Runs: []downRun{}, Jobs: []job.Ended{r}})
	}
	var err error
	switch r.Outcome {
	case outcomeIdle:
		_, err = fmt.Fprintf(g.stdout, "%s does not run: %s.\n", r.Job, r.State)
	case outcomeStopped:
		_, err = fmt.Fprintf(g.stdout, "%s ended after %.1f s: %s.\n", r.Job, r.Seconds, r.State)
	}
	return err
}
