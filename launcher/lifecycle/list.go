package lifecycle

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
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Listed is one run of `swarm ls -o json`.
type Listed struct {
	Run        string       `json:"run"`
	Experiment string       `json:"experiment"`
	State      string       `json:"state"` // running, crashed, done, stopped, lost, failed
	Imported   bool         `json:"imported"`
	Seed       int64        `json:"seed"`
	Model      string       `json:"model"`
	Device     string       `json:"device"`
	Round      int          `json:"round"` // rounds done by the slowest node
	Rounds     int          `json:"rounds"`
	Nodes      int          `json:"nodes"`
	Started    float64      `json:"started"` // Unix seconds, as the next two fields
	Ended      *float64     `json:"ended"`   // null: still running, or crashed
	LastSeen   float64      `json:"last_seen"`
	AgeSeconds float64      `json:"age_seconds"` // since last_seen; 0 for a running run
	Folder     *string      `json:"folder"`      // null: no folder on this host
	SizeBytes  *int64       `json:"size_bytes"`  // size of the folder; null: not measured
	Record     store.Totals `json:"-"`
}

// States are the possible states of a listed run.
var States = []string{store.RunRunning, stats.StateCrashed, store.RunDone, store.RunStopped, store.RunLost, store.RunFailed}

// CheckStates rejects texts that are not a state of a run.
func CheckStates(states []string) error {
	for _, s := range states {
		if !slices.Contains(States, s) {
			return &configs.Error{Key: "state", Value: s, Allowed: strings.Join(States, ", "), Source: "--state"}
		}
	}
	return nil
}

// List returns the runs with these names (of runs or experiments) and states, newest first. An empty list selects
// all. For a name without a run, the error wraps store.ErrNotFound in a text for users.
func List(ctx context.Context, reader *store.Reader, names, states []string) ([]Listed, error) {
	all, err := reader.Runs(ctx, store.Filter{})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(t store.Totals) bool { return name == t.Run.Run || name == t.Experiment }) {
			return nil, NotFound(store.ErrNotFound, name)
		}
	}
	now := event.Now()
	runs := []Listed{}
	for _, t := range all {
		if len(names) > 0 && !slices.Contains(names, t.Run.Run) && !slices.Contains(names, t.Experiment) {
			continue
		}
		r, err := listed(ctx, reader, t, now)
		if err != nil {
			return nil, err
		}
		if len(states) == 0 || slices.Contains(states, r.State) {
			runs = append(runs, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(b.Record.Resumed, a.Record.Resumed), cmp.Compare(b.Run, a.Run))
	})
	return runs, nil
}

func listed(ctx context.Context, reader *store.Reader, t store.Totals, now float64) (Listed, error) {
	r := Listed{
		Run: t.Run.Run, Experiment: t.Experiment, State: t.State, Imported: t.Imported(), Seed: t.Seed, Model: cmp.Or(t.Model, t.Models), Device: t.Device,
		Round: t.RoundsDone, Rounds: t.Rounds, Nodes: t.Nodes + t.WorkerNodes, Started: t.Started, LastSeen: t.LastSeen, AgeSeconds: max(0, now-t.LastSeen), Record: t,
	}
	if t.Ended > 0 {
		r.Ended = &t.Ended
	}
	if t.State == store.RunRunning {
		snapshot, err := reader.Snapshot(ctx, t.Run.Run)
		if err != nil {
			return r, err
		}
		if r.AgeSeconds = 0; !Alive(snapshot, now) {
			r.State, r.AgeSeconds = stats.StateCrashed, max(0, now-t.LastSeen)
		}
	}
	return r, nil
}

// Bounds of measuring the folders of a listing.
const (
	measuredEntries = 200_000
	measuredFor     = 3 * time.Second
)

// Measure fills in the folders and their sizes. It stops measuring after measuredFor.
func Measure(home layout.Home, runs []Listed) error {
	root, err := RunsRoot(home)
	if root == nil {
		return err
	}
	defer root.Close()
	budget := files.Budget{Entries: measuredEntries, Until: time.Now().Add(measuredFor)}
	Locate(home, root, runs)
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

// Locate fills in the folders.
func Locate(home layout.Home, root *os.Root, runs []Listed) {
	for i := range runs {
		r := &runs[i]
		if !store.ValidRun(r.Run) {
			continue
		}
		if _, err := root.Lstat(r.Run); err == nil {
			folder := home.Run(r.Run)
			r.Folder = &folder
		}
	}
}

// RunsRoot opens the folder that contains the runs' folders. It returns nil if there is none yet.
func RunsRoot(home layout.Home) (*os.Root, error) {
	root, err := os.OpenRoot(home.Runs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return root, err
}
