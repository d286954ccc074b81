// Package lifecycle manages the runs of a home. It finds running runs and their processes, holds their locks, and
// stops, lists and removes runs. It needs a home and its database, and trains nothing.
package lifecycle

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Silence is the time without news in the database after which a coordinator or a job on another host counts as dead,
// in seconds. A living one writes every few seconds.
const Silence = 120

// Identity names the process that runs, or ran, a run.
func Identity(run store.Run) supervise.Identity {
	return supervise.Identity{PID: run.PID, Start: uint64(run.StartTicks), Boot: run.BootID}
}

// Elsewhere reports whether a run belongs to another host, whose processes are not visible here.
func Elsewhere(run store.Run) bool {
	host, err := os.Hostname()
	return err == nil && run.Host != "" && host != run.Host
}

// Alive reports whether the process of a run is still running: the same pid, start time and boot. For a run on
// another host it relies on the database.
func Alive(s store.Snapshot, now float64) bool {
	if !Elsewhere(s.Run) {
		return Identity(s.Run).Alive()
	}
	if len(s.Attempts) == 0 {
		return s.Run.State == store.RunRunning
	}
	newest := s.Attempts[len(s.Attempts)-1]
	return newest.Ended == 0 && now-newest.Seen < Silence
}

// Status returns the current status of the run or experiment with that name.
func Status(ctx context.Context, reader *store.Reader, name string) (stats.Status, error) {
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return stats.Status{}, err
	}
	now := event.Now()
	return query.Status(snapshot, now, Alive(snapshot, now)), nil
}

// Running returns the running runs whose run or experiment has that name, oldest first. An empty name selects all.
func Running(ctx context.Context, reader *store.Reader, name string) ([]store.Snapshot, error) {
	runs, err := reader.Runs(ctx, store.Filter{States: []string{store.RunRunning}})
	if err != nil {
		return nil, err
	}
	var running []store.Snapshot
	for _, run := range runs {
		if name != "" && name != run.Run.Run && name != run.Experiment {
			continue
		}
		snapshot, err := reader.Snapshot(ctx, run.Run.Run)
		if err != nil {
			return nil, err
		}
		if Alive(snapshot, event.Now()) {
			running = append(running, snapshot)
		}
	}
	return running, nil
}

// Choose returns the one running run that name selects, or nil if there is none. An empty name selects any. Several
// runs are an error.
func Choose(ctx context.Context, reader *store.Reader, name, command string) (*store.Snapshot, error) {
	running, err := Running(ctx, reader, name)
	switch {
	case err != nil || len(running) == 0:
		return nil, err
	case len(running) > 1:
		return nil, fail.Usage(
			fmt.Errorf("%d runs are running: %s", len(running), strings.Join(runNames(running), ", ")),
			"swarm "+command+" "+running[len(running)-1].Run.Run)

	}
	return &running[0], nil
}

func runNames(runs []store.Snapshot) []string {
	var names []string
	for _, s := range runs {
		name := s.Run.Run
		if Elsewhere(s.Run) {
			name += " on " + s.Run.Host
		}
		names = append(names, name)
	}
	return names
}
