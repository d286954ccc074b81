package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// listedRun is one run of `swarm ls -o json`.
type listedRun struct {
	Run        string   `json:"run"`
	Experiment string   `json:"experiment"`
	State      string   `json:"state"` // running, crashed, done, stopped, lost, failed
	Imported   bool     `json:"imported"`
	Seed       int64    `json:"seed"`
	Model      string   `json:"model"`
	Device     string   `json:"device"`
	Round      int      `json:"round"` // done by the slowest node
	Rounds     int      `json:"rounds"`
	Nodes      int      `json:"nodes"`
	Started    float64  `json:"started"` // Unix seconds, like the next two
	Ended      *float64 `json:"ended"`   // null: it runs, or died without a word
	LastSeen   float64  `json:"last_seen"`
	AgeSeconds float64  `json:"age_seconds"` // since last_seen; 0 of one that runs
	Folder     *string  `json:"folder"`      // null: it has none here
	SizeBytes  *int64   `json:"size_bytes"`  // of the folder; null: not measured
	record     store.Totals
}

// runStates are the states that a listed run may have.
var runStates = []string{store.RunRunning, stats.StateCrashed, store.RunDone, store.RunStopped, store.RunLost, store.RunFailed}

func checkStates(states []string) error {
	for _, s := range states {
		if !slices.Contains(runStates, s) {
			return &configs.Error{Key: "state", Value: s, Allowed: strings.Join(runStates, ", "), Source: "--state"}
		}
	}
	return nil
}

// listRuns are the runs of those names, runs' or experiments', and states, the newest first; of no name or state all. The error is
// store.ErrNotFound, wrapped in what a user reads, for a name that no run has.
func listRuns(ctx context.Context, g *globals, reader *store.Reader, names, states []string) ([]listedRun, error) {
	all, err := reader.Runs(ctx, store.Filter{})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(t store.Totals) bool { return name == t.Run.Run || name == t.Experiment }) {
			return nil, notFound(store.ErrNotFound, name)
		}
	}
	now := event.Now()
	runs := []listedRun{}
	for _, t := range all {
		if len(names) > 0 && !slices.Contains(names, t.Run.Run) && !slices.Contains(names, t.Experiment) {
			continue
		}
		r, err := g.listed(ctx, reader, t, now)
		if err != nil {
			return nil, err
		}
		if len(states) == 0 || slices.Contains(states, r.State) {
			runs = append(runs, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b listedRun) int {
		return cmp.Or(cmp.Compare(b.record.Resumed, a.record.Resumed), cmp.Compare(b.Run, a.Run))
	})
	return runs, nil
}

func (g *globals) listed(ctx context.Context, reader *store.Reader, t store.Totals, now float64) (listedRun, error) {
	r := listedRun{
		Run: t.Run.Run, Experiment: t.Experiment, State: t.State, Imported: t.Imported(), Seed: t.Seed, Model: cmp.Or(t.Model, t.Models), Device: t.Device,
		Round: t.RoundsDone, Rounds: t.Rounds, Nodes: t.Nodes + t.WorkerNodes, Started: t.Started, LastSeen: t.LastSeen, AgeSeconds: max(0, now-t.LastSeen), record: t,
	}
	if t.Ended > 0 {
		r.Ended = &t.Ended
	}
	if t.State == store.RunRunning {
		snapshot, err := reader.Snapshot(ctx, t.Run.Run)
		if err != nil {
			return r, err
		}
		if r.AgeSeconds = 0; !coordinatorAlive(snapshot, now) {
			r.State, r.AgeSeconds = stats.StateCrashed, max(0, now-t.LastSeen)
		}
	}
	return r, nil
}

// What measuring the folders of a listing may cost.
const (
	measuredEntries = 200_000
	measuredFor     = 3 * time.Second
)

// measure fills in folders and their sizes, as far as that takes no more than a moment.
func (g *globals) measure(runs []listedRun) error {
	root, err := g.runsRoot()
	if root == nil {
		return err
	}
	defer root.Close()
	budget := files.Budget{Entries: measuredEntries, Until: time.Now().Add(measuredFor)}
	g.locate(root, runs)
	for i := range runs {
		r := &runs[i]
		if r.Folder == nil {
			continue
		}
		bytes, whole, err := files.Size(root, r.Run, &budget)
		if err == nil && whole {
			r.SizeBytes = &bytes
		}
	}
	return nil
}

// locate fills in folders.
func (g *globals) locate(root *os.Root, runs []listedRun) {
	for i := range runs {
		r := &runs[i]
		if !store.ValidRun(r.Run) {
			continue
		}
		if _, err := root.Lstat(r.Run); err == nil {
			folder := g.home.Run(r.Run)
			r.Folder = &folder
		}
	}
}

// runsRoot is the folder of the runs' folders; nil where there is none yet.
func (g *globals) runsRoot() (*os.Root, error) {
	root, err := os.OpenRoot(g.home.Runs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return root, err
}
