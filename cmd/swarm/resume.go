package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// errFinished says that there is nothing left to do: the run has done all its rounds.
var errFinished = errors.New("the run has done all its rounds")

// resume decides which run `up` goes on with: the newest of the experiment with the same seed. Another seed, or --fresh, is another run.
type resume struct {
	g     *globals
	fresh bool

	asked bool
	run   *store.Run // nil: a new one is begun
	fixed configs.Config
	plan  fit.Plan // of run
}

// decide looks for the run to go on with, and refuses a configuration that would make another experiment of it. It is asked once the
// configuration is known and before anything is planned, since a run keeps its nodes.
func (r *resume) decide(ctx context.Context, c configs.Config) error {
	if r.asked {
		return nil
	}
	if err := alreadyRunning(r.g.home, c.Experiment); err != nil {
		return err
	}
	if !r.fresh {
		if err := r.find(ctx, c); err != nil {
			return err
		}
	}
	r.asked = true
	if r.run == nil {
		return nil
	}
	if changes := configs.Changes(r.fixed, c); changes != nil {
		return r.refuse(changes...)
	}
	return nil
}

// find sets the run, where there is one.
func (r *resume) find(ctx context.Context, c configs.Config) error {
	if _, err := os.Stat(r.g.database()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// Opened for writing first: that brings a database of an older swarm up to date.
	s, err := store.Open(ctx, r.g.database(), store.Options{Warn: databaseNews(r.g.logger)})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	reader, err := store.OpenReader(ctx, r.g.database())
	if err != nil {
		return err
	}
	defer reader.Close()
	if r.run, err = reader.FindRun(ctx, c.Experiment, c.Seed); err != nil || r.run == nil {
		return err
	}
	if err := errors.Join(json.Unmarshal(r.run.Config, &r.fixed), json.Unmarshal(r.run.Plan, &r.plan)); err != nil {
		return r.unusable(fmt.Errorf("its configuration can't be read: %w", err))
	}
	if _, err := os.Stat(r.dir()); err != nil && !r.finished(c) {
		return r.unusable(fmt.Errorf("its folder is gone: %w", err))
	}
	return nil
}

func (r *resume) dir() string { return filepath.Join(r.g.home, "runs", r.run.Run) }

// finished tells whether the run has done all that is asked for.
func (r *resume) finished(c configs.Config) bool {
	return r.run != nil && r.run.State == store.RunDone && c.Rounds == r.run.Rounds
}

// take decides for a configuration, and returns how many nodes to plan for: as asked, or as the run has. It is errFinished when nothing is
// left to do.
func (r *resume) take(ctx context.Context, c configs.Config, asked string) (nodes string, err error) {
	if err := r.decide(ctx, c); err != nil || r.run == nil {
		return asked, err
	}
	if r.finished(c) {
		return "", errFinished
	}
	has := strconv.Itoa(r.run.Nodes)
	if asked == fit.NodesAuto || asked == fit.NodesMax || asked == has {
		return has, nil
	}
	return "", r.refuse(configs.Change{Key: "nodes", Before: has, After: asked})
}

// fits refuses a plan that would compute otherwise than the run did so far, and keeps what must stay as it was.
func (r *resume) fits(p *planned) error {
	if p.plan.Device != r.plan.Device {
		return r.refuse(configs.Change{Key: "device", Before: r.plan.Device, After: p.plan.Device})
	}
	cuda := p.plan.Device == fit.DeviceCUDA
	if was, is := r.fixed.ResolvedPrecision(cuda), p.config.ResolvedPrecision(cuda); was != is {
		return r.refuse(configs.Change{Key: "precision", Before: was, After: is})
	}
	if !cuda {
		p.plan.Threads = r.plan.Threads // sums come out a little different with another number
	}
	return nil
}

// last is when the run was last heard of, in Unix seconds. It refuses to go on to fewer rounds than are done.
func (r *resume) last(ctx context.Context, reader *store.Reader, rounds int) (float64, error) {
	snapshot, err := reader.Snapshot(ctx, r.run.Run)
	if err != nil {
		return 0, err
	}
	last := max(r.run.Started, r.run.Resumed, r.run.Ended)
	for _, n := range snapshot.Nodes {
		if n.LastRound >= rounds {
			return 0, &usageError{
				fmt.Errorf("run %s has done %d rounds of %s already, more than --rounds %d", r.run.Run, n.LastRound+1, n.Node, rounds),
				"--rounds " + strconv.Itoa(n.LastRound+1) + " or more, or --fresh for a new run",
			}
		}
		last = max(last, n.LastEvent)
	}
	return last, nil
}

// same refuses other weights or files of questions than the run began with.
func (r *resume) same(inputs map[string]string) error {
	if r.run == nil {
		return nil
	}
	var before versions
	if err := json.Unmarshal(r.run.Versions, &before); err != nil {
		return r.unusable(fmt.Errorf("what it was made with can't be read: %w", err))
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		if was := before.Inputs[name]; was != "" && was != inputs[name] {
			return &usageError{
				fmt.Errorf("run %s can't go on: what %s names has changed since it began (sha256 %.12s → %.12s)", r.run.Run, name, was, inputs[name]),
				"the former files, --fresh for a new run of this experiment, or --name OTHER for another experiment",
			}
		}
	}
	return nil
}

// summarise shows the end of a run that has nothing left to do.
func (r *resume) summarise(ctx context.Context, p planned, asJSON bool) error {
	reader, err := store.OpenReader(ctx, r.g.database())
	if err != nil {
		return err
	}
	defer reader.Close()
	if !asJSON {
		fmt.Fprintf(r.g.stdout, "%s has done all its %d rounds already. --rounds N goes on to more, --fresh begins a new run.\n", r.run.Run, r.run.Rounds)
	}
	c := &coordinator{g: r.g, p: p, run: r.run.Run, dir: r.dir(), reader: reader}
	return c.summarise(asJSON)
}

func (r *resume) refuse(changes ...configs.Change) error {
	var texts []string
	for _, c := range changes {
		texts = append(texts, c.String())
	}
	return &usageError{
		fmt.Errorf("run %s can't go on with another configuration: %s", r.run.Run, strings.Join(texts, ", ")),
		"the former values, --fresh for a new run of this experiment, or --name OTHER for another experiment",
	}
}

// unusable is the error for a run that can't go on.
func (r *resume) unusable(err error) error {
	return &hintError{fmt.Errorf("run %s can't go on: %w", r.run.Run, err), "--fresh for a new run"}
}
