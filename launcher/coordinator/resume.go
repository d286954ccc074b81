package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/store/neutral"
	"github.com/sapo-swarm/swarm/node/journal"
)

// ErrFinished reports that the run has done all its rounds.
var ErrFinished = errors.New("the run has done all its rounds")

// Resume decides which run `up` continues: the newest run of the experiment with the same seed. Another seed, or
// --fresh, starts another run.
type Resume struct {
	Home   layout.Home
	Logger *slog.Logger

	Fresh bool
	Only  string // name of the run to continue; empty: the newest
	Sweep bool   // for a sweep: if this home has no such run, an imported finished run counts
	Busy  bool   // for a sweep: decide even if another process is running the experiment

	Service bool // for a service: Take may return a *DeclinedError

	asked    bool
	declined *DeclinedError
	Run      *store.Run // set by Take; nil: start a new run
	Fixed    configs.Config
	Plan     fit.Plan     // of Run
	Nodes    []store.Node // of Run, unless it is imported
}

// decide finds the run to continue. It must run after the configuration is resolved and before planning, because a
// run keeps its number of nodes.
func (r *Resume) decide(ctx context.Context, c configs.Config) error {
	if r.asked {
		return nil
	}
	if !r.Busy {
		if err := lifecycle.AlreadyRunning(r.Home, c.Experiment); err != nil {
			return err
		}
	}
	if !r.Fresh {
		if err := r.find(ctx, c); err != nil {
			return err
		}
	}
	r.asked = true
	return nil
}

// withoutFolders reduces the paths in a configuration to their last element, as in imported runs. Checksums compare
// the files' content.
func withoutFolders(c configs.Config) (cut configs.Config, err error) {
	data, err := json.Marshal(c)
	if err != nil {
		return c, err
	}
	return cut, json.Unmarshal(neutral.DocumentWithoutFolders(data), &cut)
}

// find sets Run if there is a run to continue.
func (r *Resume) find(ctx context.Context, c configs.Config) error {
	if _, err := os.Stat(r.Home.Database()); err != nil {
		return nil // no database yet; creating it will report other problems with the folder
	}
	// Open the database for writing first: that migrates an older one.
	s, err := store.Open(ctx, r.Home.Database(), store.Options{Warn: store.LogNews(r.Logger)})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	reader, err := store.OpenReader(ctx, r.Home.Database())
	if err != nil {
		return err
	}
	defer reader.Close()
	if r.Only != "" {
		return r.findOnly(ctx, reader, c)
	}
	r.Run, err = reader.FindRun(ctx, c.Experiment, c.Seed)
	if err == nil && r.Run == nil && r.Sweep {
		r.Run, err = reader.FindImported(ctx, c.Experiment, c.Seed, c.Rounds)
	}
	if err != nil || r.Run == nil {
		return err
	}
	return r.read(ctx, reader, c)
}

// findOnly sets Run to the requested run. It rejects settings that select another run.
func (r *Resume) findOnly(ctx context.Context, reader *store.Reader, c configs.Config) error {
	snapshot, err := reader.Snapshot(ctx, r.Only)
	if err != nil {
		return lifecycle.NotFound(err, r.Only)
	}
	run := snapshot.Run
	if run.Run != r.Only || run.Experiment != c.Experiment || run.Seed != c.Seed {
		return fail.Usage(
			fmt.Errorf("run %s is of experiment %s with seed %d, not of %s with seed %d", run.Run, run.Experiment, run.Seed, c.Experiment, c.Seed),
			"swarm resume "+run.Run+" without another name or seed")

	}
	r.Run = &run
	return r.read(ctx, reader, c)
}

// read loads the run's configuration and plan, and checks that its folder exists.
func (r *Resume) read(ctx context.Context, reader *store.Reader, c configs.Config) error {
	r.Fixed = configs.Default() // defaults for keys that the run's version did not have
	if err := errors.Join(json.Unmarshal(r.Run.Config, &r.Fixed), json.Unmarshal(r.Run.Plan, &r.Plan)); err != nil {
		return r.unusable(fmt.Errorf("its configuration cannot be read: %w", err))
	}
	if _, err := os.Stat(r.Dir()); err != nil && !r.finished(c) {
		return r.unusable(fmt.Errorf("its folder is missing: %w", err))
	}
	if r.Run.Imported() {
		return nil
	}
	snapshot, err := reader.Snapshot(ctx, r.Run.Run)
	r.Nodes = snapshot.Nodes
	if err == nil && r.Service {
		r.declined = decline(snapshot, c)
	}
	return err
}

// Dir returns the run's folder.
func (r *Resume) Dir() string { return r.Home.Run(r.Run.Run) }

// finished reports whether the run has done all requested rounds.
func (r *Resume) finished(c configs.Config) bool {
	return r.Run != nil && r.Run.State == store.RunDone && c.Rounds == r.Run.Rounds
}

// Take decides for a configuration. It returns the number of nodes to plan for: asked, or the run's. The error is
// ErrFinished if nothing is left to do, and a *DeclinedError if a service is to leave the run. Take rejects different
// settings, even for a finished run.
func (r *Resume) Take(ctx context.Context, c configs.Config, asked string) (nodes string, err error) {
	if err := r.decide(ctx, c); err != nil || r.Run == nil {
		return asked, err
	}
	differences, err := r.otherwise(c, asked)
	if err != nil {
		return "", err
	}
	if differences != nil {
		return "", r.Refuse(differences...)
	}
	if err := r.fewer(r.Nodes, c.Rounds); err != nil {
		return "", err
	}
	if _, notNumber := strconv.Atoi(asked); notNumber != nil && asked != fit.NodesAuto && asked != fit.NodesMax {
		return asked, nil // planning rejects it
	}
	if r.finished(c) {
		return "", ErrFinished
	}
	if r.declined != nil {
		return "", r.declined
	}
	return strconv.Itoa(r.Run.Nodes), nil
}

// Kept returns the configuration of the run that Take has found.
func (r *Resume) Kept() (configs.Config, bool) { return r.Fixed, r.Run != nil }

// still rejects the decision if another process has run the experiment since the decision, as during a long wait
// for a GPU. The caller holds the experiment's lock.
func (r *Resume) still(ctx context.Context, reader *store.Reader, c configs.Config) error {
	if r.Fresh {
		return nil
	}
	newest, err := reader.FindRun(ctx, c.Experiment, c.Seed)
	if err == nil && r.Only != "" {
		var s store.Snapshot
		s, err = reader.Snapshot(ctx, r.Only)
		newest = &s.Run
	}
	if err != nil {
		return err
	}
	if newest == nil && r.Run != nil && !r.Run.Imported() {
		return fail.Hint(fmt.Errorf("run %s has been removed in the meantime", r.Run.Run), "the same command again")
	}
	if newest == nil || r.Run != nil && newest.Run == r.Run.Run && newest.Attempts == r.Run.Attempts {
		return nil
	}
	return fail.Hint(fmt.Errorf("another process has changed run %s in the meantime", newest.Run), "the same command again")
}

// last returns the time of the run's last event, in Unix seconds. It rejects fewer rounds than the run has done.
func (r *Resume) last(ctx context.Context, reader *store.Reader, rounds int) (float64, error) {
	snapshot, err := reader.Snapshot(ctx, r.Run.Run)
	if err != nil {
		return 0, err
	}
	last := max(r.Run.Started, r.Run.Resumed, r.Run.Ended)
	for _, n := range snapshot.Nodes {
		last = max(last, n.LastEvent)
	}
	return last, r.fewer(snapshot.Nodes, rounds)
}

// done returns how many rounds a node has done. It counts the rounds in the database. Above rounds, it also counts
// those in the node's journal that a killed coordinator had not recorded, because they would be replayed.
func (r *Resume) done(n store.Node, rounds int) int {
	done := n.LastRound + 1
	for round, err := range journal.Rounds(filepath.Join(r.Dir(), n.Node), max(done, rounds)) {
		if err != nil || round.Trained == nil {
			break // damaged rounds are not restored
		}
		done = round.Round + 1
	}
	return done
}

// going reports whether there is a run to continue.
func (r *Resume) going() bool { return r != nil && r.Run != nil }

// made returns the versions and inputs of the run to continue, or zero values.
func (r *Resume) made() (before Versions, err error) {
	if !r.going() {
		return before, nil
	}
	if err := json.Unmarshal(r.Run.Versions, &before); err != nil {
		return before, r.unusable(fmt.Errorf("its recorded versions and inputs cannot be read: %w", err))
	}
	return before, nil
}

// same rejects weights, question files or a trainer other than those with which the run began.
func (r *Resume) same(inputs map[string]string) error {
	if r.Run == nil {
		return nil
	}
	before, err := r.made()
	if err != nil {
		return err
	}
	if was, now := before.Inputs[plan.TrainerInput], inputs[plan.TrainerInput]; (was == "") != (now == "") {
		const own, others = "swarm's own nodes", "a --node-command's"
		began, goes := own, others
		if was != "" {
			began, goes = others, own
		}
		return fail.Usage(
			fmt.Errorf("run %s cannot continue: its nodes are %s, not %s", r.Run.Run, began, goes),
			"the same command as before, --fresh for a new run of this experiment, or --name OTHER for another experiment")

	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		was := before.Inputs[name]
		if r.Run.Imported() {
			was = before.Inputs[neutral.WithoutFolders(name)]
		}
		if was != "" && was != inputs[name] {
			return r.differs("files", func(what string) error {
				return fmt.Errorf("%s other contents of %s (sha256 %.12s → %.12s)", what, name, was, inputs[name])
			})
		}
	}
	return nil
}

// unusable returns the error for a run that cannot continue.
func (r *Resume) unusable(err error) error {
	return fail.Hint(fmt.Errorf("run %s cannot continue: %w", r.Run.Run, err), "--fresh for a new run")
}
